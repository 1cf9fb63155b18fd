package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// What the start of qq cost before it spoke to other servers than Ollama, at commit 95051b9: what this row says with
// the binary of that tree as QQ_BIN, on linux/amd64 with Go 1.26.8. If another Go moves these figures, measure that
// tree again. If something else is worth more, write its share behind the figure.
const (
	faultsBefore = 489        // of qq version on one processor, beside those of a Go hello world
	heapBefore   = 453_000    // bytes that all packages allocate before main; 200 more or less in each run
	sizeBefore   = 22_130_850 // bytes of the stripped binary
)

// What all servers since may cost.
const (
	moreFaults = 10
	moreHeap   = 10  // KiB
	moreSize   = 0.5 // MB
)

// measureStart measures what every command costs before it does anything.
func measureStart(ctx context.Context, b *bench) ([]line, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	start := func(program string, env []string, args ...string) func() (used, error) {
		c := command{program: b.bin[program], args: args, dir: dir, env: env}
		return func() (used, error) { return c.run(ctx) }
	}
	// With one processor, as children have, the runtime touches the same pages nearly every time.
	one := append(slices.Clone(env), "GOMAXPROCS=1")
	us, err := b.interleave(b.pick(100, 10),
		start("qq", env, "version"), start("hello", env), start("qq", one, "version"), start("hello", one),
	)
	if err != nil {
		return nil, err
	}
	heap, err := initHeap(ctx, command{program: b.bin["qq"], args: []string{"version"}, dir: dir, env: env})
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(b.bin["qq"])
	if err != nil {
		return nil, err
	}
	faults := fewest(us[2]) - fewest(us[3])
	return []line{
		ratio("start of qq version: CPU, against a Go hello world", column(us[0], cpu), column(us[1], cpu), 2.2,
			milliseconds),
		more("start of qq version: page faults beside those of a Go hello world", faults, faultsBefore, 1,
			moreFaults, "faults"),
		more("start of qq version: heap before main", heap, heapBefore, 1<<10, moreHeap, "KiB"),
		more("size of the binary", info.Size(), sizeBefore, 1e6, moreSize, "MB"),
	}, nil
}

// fewest returns the page faults of the run that had the fewest: chance only adds some.
func fewest(us []used) int64 {
	return slices.Min(column(us, func(u used) int64 { return u.faults }))
}

// more returns a line about how much more there is of something than before. A unit is so many of it.
func more(what string, now, before int64, one, limit float64, unit string) line {
	return line{what: what + ", against Ollama alone", qq: fmt.Sprint(now), yard: fmt.Sprint(before),
		value: float64(now-before) / one, limit: limit, unit: unit}
}

// traced is what the runtime says about the init of one package, with the bytes that it allocated.
var traced = regexp.MustCompile(`(?m)^init \S+ @.*, (\d+) bytes, \d+ allocs$`)

// initHeap returns how many bytes all packages of c allocate before main.
func initHeap(ctx context.Context, c command) (int64, error) {
	c.env = append(slices.Clone(c.env), "GODEBUG=inittrace=1")
	if _, err := c.run(ctx); err != nil {
		return 0, err
	}
	said, err := os.ReadFile(filepath.Join(c.dir, "stderr"))
	if err != nil {
		return 0, err
	}
	return heapIn(said)
}

// heapIn adds up what the runtime says about the init of all packages.
func heapIn(trace []byte) (int64, error) {
	packages := traced.FindAllSubmatch(trace, -1)
	if len(packages) == 0 {
		return 0, errors.New("the runtime says nothing about the init of packages")
	}
	var total int64
	for _, p := range packages {
		n, err := strconv.ParseInt(string(p[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
