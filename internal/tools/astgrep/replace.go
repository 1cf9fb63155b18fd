package astgrep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"qq/internal/tools/store"
	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

// maxPreview is the longest diff that an approval shows, in bytes. It is sent to the root in one frame.
const maxPreview = 600 << 10

// maxSpecial is how many characters the list of special files in an approval may have.
const maxSpecial = 1000

func replaceSpec() tool.Spec {
	return tool.Spec{Name: "ast_grep_replace", Effect: tool.Writes,
		Description: `Replace code that matches a pattern of ast_grep, in all files at once. ` +
			`Example: {"pattern":"foo($A)","rewrite":"bar($A)","lang":"go","glob":"*.go"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["pattern","rewrite","lang"],"properties":{` +
			queryProperties + `,"rewrite":{"type":"string"}}}`)}
}

// change holds all edits of one file.
type change struct {
	file  string
	edits []edit // in order, apart from each other
}

// edit replaces the text was, at the bytes of span, by text.
type edit struct {
	span
	was, text string
}

// replace changes the files, each under its lock. Its answer names the files that were changed
// and those that could not be.
func (c Config) replace(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	changes, nested, err := c.plan(ctx, args)
	if err != nil {
		return tool.Result{}, err
	}
	if err := c.permit(ctx, changes); err != nil {
		return tool.Result{}, err
	}
	shown, _ := tool.Granted(ctx)
	var a tool.Result
	var done, failed []string
	for _, ch := range changes {
		err := store.Replace(ctx, c.Root, ch.file, func(old []byte) ([]byte, error) {
			if err := shown.Unchanged(ch.file, store.Sum(old)); err != nil {
				return nil, err
			}
			return ch.apply(old)
		})
		if err != nil && !errors.Is(err, store.ErrNotDurable) {
			failed = append(failed, err.Error())
			continue
		}
		a.Changed = append(a.Changed, ch.file)
		done = append(done, fmt.Sprintf("%s: %d replaced", tree.Printable(ch.file), len(ch.edits)))
		if err != nil {
			done = append(done, "["+err.Error()+"]")
		}
	}
	if nested > 0 {
		done = append(done, fmt.Sprintf("[%d matches inside of others were left: call again for them]", nested))
	}
	a.Content = strings.Join(done, "\n")
	if len(failed) == 0 {
		return a, nil
	}
	text := strings.Join(failed, "\n")
	if len(a.Changed) > 0 {
		text += "\nIn the other files it was done:\n" + a.Content
	}
	return a, errors.New(text)
}

func (c Config) replaceIntent(ctx context.Context, args json.RawMessage) (tool.Intent, error) {
	changes, _, err := c.plan(ctx, args)
	if err != nil {
		return tool.Intent{}, err
	}
	in := tool.Intent{Risk: tool.Medium, Sums: map[string]string{}}
	places := 0
	var diff, special strings.Builder
	for _, ch := range changes {
		in.Paths = append(in.Paths, ch.file)
		places += len(ch.edits)
		if why := c.concern(ch.file); why != "" {
			in.Risk, in.Special = tool.High, true
			fmt.Fprintf(&special, ", of which %s %s", tree.Printable(ch.file), why)
		}
		content, err := c.read(ch.file)
		if err != nil {
			return tool.Intent{}, err
		}
		in.Sums[ch.file] = store.Sum(content)
		if diff.Len() > maxPreview {
			continue
		}
		text, err := ch.diff(content)
		if err != nil {
			return tool.Intent{}, err
		}
		diff.WriteString(text)
	}
	in.Summary = fmt.Sprintf("replace code at %d places in %d files", places, len(changes)) +
		tool.First(special.String(), maxSpecial, "…")
	in.Preview = tool.Visible(diff.String())
	if in.Cut = len(in.Preview) > maxPreview; in.Cut {
		in.Preview = string(tool.WholeRunes([]byte(in.Preview[:maxPreview]))) + "…"
	}
	return in, nil
}

// plan finds out what a call would change. nested counts the matches inside other matches, which
// are not replaced.
func (c Config) plan(ctx context.Context, args json.RawMessage) (changes []change, nested int, err error) {
	var q query
	var rewrite json.RawMessage
	fields := q.fields()
	fields["rewrite"] = &rewrite
	if err := tool.Decode(args, fields); err != nil {
		return nil, 0, err
	}
	if q.rewrite, err = readRewrite(rewrite); err != nil {
		return nil, 0, err
	}
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	files, err := c.files(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	found, remark, err := c.find(ctx, q, files)
	if err != nil {
		return nil, 0, err
	}
	changes, nested = collect(found)
	if len(changes) > 0 {
		return changes, nested, nil
	}
	text := "nothing to replace: the pattern matches nothing, or is what it would be replaced with"
	if warning := gist(remark, "Warning: "); warning != "" {
		text += " (" + warning + ")"
	}
	return nil, 0, errors.New(text)
}

// collect turns matches, which must be in order, into one change for each file.
func collect(found []match) (changes []change, nested int) {
	var file *change
	for _, m := range found {
		at, was := m.Range.ByteOffset, m.Text
		if len(was) != at.End-at.Start {
			continue
		}
		if r := m.ReplacementOffsets; r != nil && *r != at {
			// A part of the match may be replaced. A larger range is skipped, because its text is not known.
			if r.Start < at.Start || r.End > at.End || r.Start > r.End {
				continue
			}
			at, was = *r, was[r.Start-at.Start:r.End-at.Start]
		}
		if m.ReplacementOffsets == nil || was == m.Replacement {
			continue
		}
		if file == nil || file.file != m.File {
			changes = append(changes, change{file: m.File})
			file = &changes[len(changes)-1]
		}
		if n := len(file.edits); n > 0 && at.Start < file.edits[n-1].End {
			nested++
			continue
		}
		file.edits = append(file.edits, edit{at, was, m.Replacement})
	}
	return changes, nested
}

// permit returns an error if the changes touch a file that the approval did not include, or a special file that
// needs an approval of its own and has none.
func (c Config) permit(ctx context.Context, changes []change) error {
	in, granted := tool.Granted(ctx)
	for _, ch := range changes {
		if why := c.concern(ch.file); why != "" && !in.Special {
			return fmt.Errorf("%s %s and is not changed without an approval: nothing was changed",
				tree.Printable(ch.file), why)
		}
		if granted && !slices.Contains(in.Paths, ch.file) {
			return fmt.Errorf("%s did not match when this was allowed and does now: nothing was changed, call again",
				ch.file)
		}
	}
	return nil
}

// on returns the edits for content, or an error if content is no longer what ast-grep searched.
func (ch change) on(content []byte) ([]udiff.Edit, error) {
	edits := make([]udiff.Edit, len(ch.edits))
	for i, e := range ch.edits {
		if e.Start < 0 || e.End > len(content) || string(content[e.Start:e.End]) != e.was {
			return nil, fmt.Errorf("%s changed since it was searched: nothing was replaced in it, call again", ch.file)
		}
		edits[i] = udiff.Edit{Start: e.Start, End: e.End, New: e.text}
	}
	return edits, nil
}

// apply returns the content of the file after the change. It returns an error if old is not what ast-grep searched.
func (ch change) apply(old []byte) ([]byte, error) {
	edits, err := ch.on(old)
	if err != nil {
		return nil, err
	}
	return udiff.ApplyBytes(old, edits)
}

// diff returns the change of content as a unified diff.
func (ch change) diff(content []byte) (string, error) {
	edits, err := ch.on(content)
	if err != nil {
		return "", err
	}
	return udiff.ToUnified(ch.file, ch.file, string(content), edits, udiff.DefaultContextLines)
}
