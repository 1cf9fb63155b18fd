package targets

import (
	"slices"
	"strings"
)

// Index holds targets, each with a value, and finds those that overlap with one. The zero Index is empty.
//
// It keeps paths and globs apart, each by the text that all its paths begin with. What can overlap with
// a path begins like it, or is below it. So most of the others are never looked at.
type Index[V any] struct {
	entries []entry[V] // those that were removed are in a list of free ones
	free    Ref
	paths   keys
	globs   keys
	longest []int32 // how many keys of globs have so many bytes
	now     Mark
}

// Mark is a moment in the life of an [Index]. The zero Mark is its beginning.
type Mark int32

// Ref is a target in an [Index].
type Ref int32

// entry is one target. The targets with the same key are in a list.
type entry[V any] struct {
	target     Target
	value      V
	next, prev Ref // 0 is none; those that are next were added before
	added      Mark
}

// keys are the beginnings of targets, with the first entry of each.
type keys struct {
	first  map[string]Ref
	sorted blocks
}

func (t Target) key() string { return t.text[:t.prefix] }

func (x *Index[V]) of(t Target) *keys {
	k := &x.paths
	if t.kind > file {
		k = &x.globs
	}
	if k.first == nil {
		k.first = map[string]Ref{}
	}
	return k
}

// Grow makes room for n targets more.
func (x *Index[V]) Grow(n int) {
	x.entries = slices.Grow(x.entries, n+1)
	if x.paths.first == nil {
		x.paths.first = make(map[string]Ref, n)
	}
}

// Add adds a target.
func (x *Index[V]) Add(t Target, value V) Ref {
	if len(x.entries) == 0 {
		x.entries = append(x.entries, entry[V]{}) // 0 is no entry
	}
	at := x.free
	if at > 0 {
		x.free = x.entries[at].next
	} else {
		at = Ref(len(x.entries))
		x.entries = append(x.entries, entry[V]{})
	}
	key, in := t.key(), x.of(t)
	next := in.first[key]
	if next == 0 {
		in.sorted.insert(key)
		x.count(t, 1)
	} else {
		x.entries[next].prev = at
	}
	in.first[key] = at
	x.now++
	x.entries[at] = entry[V]{target: t, value: value, next: next, added: x.now}
	return at
}

// count says that there are more keys of globs that are as long as that of t.
func (x *Index[V]) count(t Target, more int32) {
	if t.kind <= file {
		return
	}
	for len(x.longest) <= int(t.prefix) {
		x.longest = append(x.longest, 0)
	}
	x.longest[t.prefix] += more
}

// Remove removes a target. The Ref is not valid after that.
func (x *Index[V]) Remove(at Ref) {
	e := x.entries[at]
	key, in := e.target.key(), x.of(e.target)
	if e.next > 0 {
		x.entries[e.next].prev = e.prev
	}
	switch {
	case e.prev > 0:
		x.entries[e.prev].next = e.next
	case e.next > 0:
		in.first[key] = e.next
	default:
		delete(in.first, key)
		in.sorted.remove(key)
		x.count(e.target, -1)
	}
	x.entries[at] = entry[V]{next: x.free}
	x.free = at
}

// At returns a target and its value.
func (x *Index[V]) At(at Ref) (Target, V) { return x.entries[at].target, x.entries[at].value }

// Now returns the moment after the last target was added.
func (x *Index[V]) Now() Mark { return x.now }

// Overlapping appends to found the targets that overlap with t, in no order.
func (x *Index[V]) Overlapping(t Target, found []Ref) []Ref {
	before := len(found)
	found = x.Near(0, t, found)
	near := slices.DeleteFunc(found[before:], func(at Ref) bool { return !Overlap(x.entries[at].target, t) })
	return found[:before+len(near)]
}

// Near appends to found those targets that may overlap with t and were added after the mark, in no order. It does not
// compare them: all others do not overlap.
func (x *Index[V]) Near(mark Mark, t Target, found []Ref) []Ref {
	if x.now <= mark {
		return found
	}
	key := t.key()
	all := func(first Ref) {
		for at := first; at > 0 && x.entries[at].added > mark; at = x.entries[at].next {
			found = append(found, at)
		}
	}
	for i := 0; i < len(key); i++ { // folders above it
		if key[i] == '/' && len(x.paths.first) > 0 {
			all(x.paths.first[key[:i]])
		}
	}
	for n := range min(len(key), len(x.longest)) {
		if x.longest[n] > 0 {
			all(x.globs.first[key[:n]])
		}
	}
	for _, in := range [...]*keys{&x.paths, &x.globs} {
		if t.kind > file {
			in.sorted.each(key, "", func(k string) { all(in.first[k]) })
			continue
		}
		all(in.first[key])
		if t.kind == folder {
			in.sorted.each(key, "/", func(k string) { all(in.first[k]) })
		}
	}
	return found
}

// blocks is a sorted set of strings, in blocks of a bounded size.
type blocks [][]string

const maxBlock = 256

// find returns the block that s+end belongs to, its place in that block, and whether it is there.
func (b blocks) find(s, end string) (block, at int, found bool) {
	block, found = slices.BinarySearchFunc(b, s, func(have []string, s string) int {
		return compare(have[0], s, end)
	})
	if found || block == 0 {
		return block, 0, found
	}
	block--
	at, found = slices.BinarySearchFunc(b[block], s, func(have, s string) int { return compare(have, s, end) })
	return block, at, found
}

// compare compares have with s+end, without making that.
func compare(have, s, end string) int {
	n := min(len(have), len(s))
	if c := strings.Compare(have[:n], s); c != 0 {
		return c
	}
	return strings.Compare(have[n:], end)
}

func (b *blocks) insert(s string) {
	if len(*b) == 0 {
		*b = blocks{{s}}
		return
	}
	i, at, _ := b.find(s, "")
	block := slices.Insert((*b)[i], at, s)
	(*b)[i] = block
	if half := len(block) / 2; len(block) > maxBlock {
		(*b)[i] = block[:half:half]
		*b = slices.Insert(*b, i+1, slices.Clone(block[half:]))
	}
}

func (b *blocks) remove(s string) {
	i, at, found := b.find(s, "")
	if !found {
		return
	}
	if (*b)[i] = slices.Delete((*b)[i], at, at+1); len((*b)[i]) == 0 {
		*b = slices.Delete(*b, i, i+1)
	}
}

// each calls visit with each string that begins with prefix+end, in order.
func (b blocks) each(prefix, end string, visit func(s string)) {
	i, at, _ := b.find(prefix, end)
	for ; i < len(b); i, at = i+1, 0 {
		for _, s := range b[i][at:] {
			if rest, ok := strings.CutPrefix(s, prefix); !ok || !strings.HasPrefix(rest, end) {
				return
			}
			visit(s)
		}
	}
}
