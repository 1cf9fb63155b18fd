package access

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/supervisor/targets"
)

// plainPaths are paths as they are written.
type plainPaths struct{}

func (plainPaths) Targets(dir string, texts []string) (all []targets.Target) {
	for _, text := range texts {
		all = append(all, targets.Parse(dir+"/"+text, false))
	}
	return all
}

// TestUnnamed: a file that a job changed is known if another one has named it. What an ancestor has named, its
// descendants may not all change.
func TestUnnamed(t *testing.T) {
	var tree Tree
	lead := tree.Ask(nil, on("src"), nil)
	a := tree.Ask(lead, on("src/a"), nil)
	b := tree.Ask(lead, on("src/b"), nil)
	of := func(l *Lease) []string {
		return l.Unnamed([]string{"a", "b", "c", "../docs/d"}, "src", plainPaths{})
	}
	assert.Equal(t, []string{"a", "c", "../docs/d"}, of(a))
	assert.Equal(t, []string{"b", "c", "../docs/d"}, of(b))
	assert.Equal(t, []string{"c", "../docs/d"}, of(lead), "its children have named them")
	b.End()
	docs := tree.Ask(nil, on("docs"), nil)
	assert.Equal(t, []string{"a", "c"}, of(a), "it may have been there before")
	assert.Nil(t, of(nil), "nothing is known without leases")
	assert.Equal(t, []string{"../docs/d"}, of(docs))
	docs.End()
	tree.Ask(nil, on("docs"), nil).End()
	assert.Len(t, tree.named.known, 4, "the same is kept once")
}
