// Package reread repeats what an agent read, to see whether it is still the same.
package reread

import (
	"context"
	"fmt"
	"os"
	"sync"

	"qq/internal/agent"
	"qq/internal/tools/files"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Reader repeats calls of reading tools. Several goroutines may use it.
type Reader struct {
	Private []string // folders that no agent reads

	mu     sync.Mutex // guards the fields below
	folder string     // path of root
	root   *os.Root
	tools  tool.Set // read in root
}

// Read implements [record.Reader]: it repeats a call of a reading tool exactly as the
// agent made it, and returns the digest of its result.
func (p *Reader) Read(ctx context.Context, dir string, r task.Read) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root == nil || p.folder != dir {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		if p.root != nil {
			_ = p.root.Close() // it was only read
		}
		space := files.Open(root, p.Private...)
		space.Show() // who was shown no image, got another result
		p.root, p.folder, p.tools = root, dir, space.Reading()
	}
	call, ok := p.tools.Lookup(r.Tool)
	if !ok {
		return "", fmt.Errorf("%s: no such tool", r.Tool)
	}
	return agent.Digest(call.Run(ctx, r.Arguments)), nil
}
