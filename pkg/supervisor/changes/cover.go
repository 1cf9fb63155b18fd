package changes

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// maxCompare is how long the files of one question are compared with globs. Files that are left then are outside: it
// takes targets and paths that somebody made for that.
const maxCompare = 5 * time.Second

// cover is what the targets of a task cover: the paths that they name with all below, and what their globs match.
type cover struct {
	targets []string // clean
	until   time.Time
}

func newCover(targets []string) cover {
	c := cover{until: time.Now().Add(maxCompare)}
	for _, t := range targets {
		c.targets = append(c.targets, path.Clean(t))
	}
	return c
}

// has reports whether a target covers the file.
func (c cover) has(file string) bool {
	return time.Now().Before(c.until) && slices.ContainsFunc(c.targets, func(t string) bool {
		return within(file, t) || strings.ContainsAny(t, meta) && doublestar.MatchUnvalidated(t, file)
	})
}

// meta are the characters that make a path a glob.
const meta = `*?[{\`
