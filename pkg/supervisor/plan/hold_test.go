package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
)

// TestHold: the task that is named waits for one that is at work, not for one that waits itself.
func TestHold(t *testing.T) {
	a := []targets.Target{targets.Literal("/a", false)}
	tasks := []Task{
		{ID: "api", Effect: targets.Writes, Targets: a}, {ID: "fix", Effect: targets.Writes, Targets: a},
		{ID: "notes", Effect: targets.Reads, Needs: []string{"fix", "docs"}}, {ID: "docs", Effect: targets.Reads},
		{Effect: targets.Reads, Needs: []string{"docs"}},
	}
	p, err := New(tasks, Options{})
	require.NoError(t, err)
	for _, c := range []struct{ started, ended, want string }{
		{"", "", ""}, {"0", "", "fix waits for api"}, {"03", "", "fix waits for api"},
		{"03", "0", "notes waits for docs and 1 more"}, {"3", "", "notes waits for docs and 1 more"},
		{"013", "03", "notes waits for fix"}, {"0123", "", "task 5 waits for docs"}, {"01234", "", ""},
	} {
		in := func(set string) func(int) bool {
			return func(i int) bool {
				for _, r := range set {
					if int(r-'0') == i {
						return true
					}
				}
				return false
			}
		}
		assert.Equal(t, c.want, p.Hold(in(c.started), in(c.ended)), "%v", c)
	}
	tasks = []Task{{ID: "w", Effect: targets.Writes}, {ID: "r", Effect: targets.Reads, Role: Gathers}}
	p, err = New(tasks, Options{Phases: true, Together: true})
	require.NoError(t, err)
	first := func(i int) bool { return i == 1 }
	assert.Equal(t, "w waits for r", p.Hold(first, func(int) bool { return false }))
}
