package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"

	"qq/internal/tools/files"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// replay reads again what an answer rests on. Each call is made as the agent made
// it, so whatever it saw is compared: a file, a part of one, a list of names.
type replay struct {
	dir string

	mu     sync.Mutex
	folder string // where tools works
	root   *os.Root
	tools  tool.Set
}

// same reports whether all reads of t come to what they came to before.
func (p *replay) same(ctx context.Context, t task.Task, reads []task.Read) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.enter(filepath.Join(p.dir, t.WorkingDir)) {
		return false
	}
	for _, read := range reads {
		call, ok := p.tools.Lookup(read.Tool)
		if !ok || digest(call.Run(ctx, read.Arguments)) != read.Digest {
			return false
		}
	}
	return true
}

// enter opens the tools that read in dir.
func (p *replay) enter(dir string) bool {
	if p.root != nil && p.folder == dir {
		return true
	}
	p.close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	p.root, p.folder, p.tools = root, dir, files.Open(root).Reading()
	return true
}

func (p *replay) close() {
	if p.root != nil {
		p.root.Close()
		p.root = nil
	}
}

// digest is what a call came to.
func digest(r tool.Result) string {
	sum := sha256.Sum256([]byte(r.Content))
	return hex.EncodeToString(sum[:])
}
