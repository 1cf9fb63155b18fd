package scope

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

func TestPlanned(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src/app"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "src/a.go"), nil, 0o600))
	require.NoError(t, os.Symlink("src", filepath.Join(dir, "link")))
	cfg := supervisor.Config{Agents: agents.Load(nil), Paths: New(dir), Denied: []string{"web_fetch"}}
	o := supervisor.New(cfg)

	p := o.Planned(task.Task{
		ID: "x", Agent: "Coder", Targets: []string{"./src//a.go"}, Needs: []string{"y"}, Priority: 3,
	})
	assert.Equal(t, plan.Task{
		ID: "x", Agent: "coder", Role: agents.Modifying, Effect: targets.Writes, Needs: []string{"y"}, Priority: 3,
		Targets: []targets.Target{targets.Literal(dir+"/src/a.go", false).AsFile()},
	}, p)
	in := o.Planned(task.Task{Agent: "coder", WorkingDir: "src", Targets: []string{"../link/a.go", "app"}})
	overlaps := func(i int) bool { return targets.Overlap(p.Targets[0], in.Targets[i]) }
	assert.True(t, overlaps(0) || overlaps(1), "through a link: %v", in.Targets)
	assert.Equal(t, dir+"/src/app", in.Targets[len(in.Targets)-1].String())

	assert.Equal(t, targets.Reads, o.Planned(task.Task{Agent: "explorer"}).Effect)
	assert.Equal(t, targets.Reads, o.Planned(task.Task{Agent: "coder", ReadOnly: true}).Effect)
	assert.Equal(t, targets.Reads, o.Planned(task.Task{}).Effect, "default hands on what changes files")
	unknown := o.Planned(task.Task{Agent: "nobody"})
	assert.Equal(t, targets.Writes, unknown.Effect)
	assert.Equal(t, agents.Modifying, unknown.Role)
	cfg.Denied = []string{"*"}
	assert.Equal(t, targets.Reads, supervisor.New(cfg).Planned(task.Task{Agent: "coder"}).Effect)
	cfg.Denied, cfg.ReadOnly = nil, true
	assert.Equal(t, targets.Reads, supervisor.New(cfg).Planned(task.Task{Agent: "coder"}).Effect)
}
