// Package scope finds the real paths of what tasks say that they will touch, while other tasks change the files.
package scope

import (
	"sync"
	"time"

	"qq/pkg/supervisor"
	"qq/pkg/supervisor/targets"
	"qq/pkg/supervisor/targets/realpath"
)

// Paths finds the paths for the jobs of a run. Several goroutines may use it at once.
type Paths struct {
	dir  string
	fold bool

	mu     sync.Mutex
	links  *realpath.Resolver
	looked time.Time     // when the links were looked at
	took   time.Duration // the longest that it took since then
}

var _ supervisor.Paths = (*Paths)(nil)

// New returns the Paths of a run that works in dir.
func New(dir string) *Paths { return &Paths{dir: dir} }

// Links are looked at again after a while, because tasks make some. In a large tree that takes long, so it is then done
// less often.
const (
	keepLinks = time.Second
	share     = 20 // of the time is not spent on it, to one part that is
)

// Targets implements supervisor.Paths. If the working directory is gone, the targets may be anything.
func (p *Paths) Targets(dir string, texts []string) (all []targets.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	if !p.look(began) {
		return nil
	}
	for _, text := range texts {
		all = append(all, p.links.Targets(dir, text)...)
	}
	p.took = max(p.took, time.Since(began))
	return all
}

// look looks at the links, unless that was done shortly before. It returns false without a working directory.
func (p *Paths) look(now time.Time) bool {
	if p.links == nil {
		p.fold = realpath.Folds(p.dir)
	}
	if p.links == nil || now.Sub(p.looked) > max(keepLinks, share*p.took) {
		links, err := realpath.New(p.dir, p.fold)
		if err != nil {
			return false
		}
		p.links, p.looked, p.took = links, now, 0
	}
	return true
}

// Root returns the working directory as targets have it.
func (p *Paths) Root() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.look(time.Now()) {
		return p.dir
	}
	return p.links.Root()
}
