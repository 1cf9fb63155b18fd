package graph

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func after(id string, ids ...string) Task {
	t := Task{ID: id, Label: id}
	for _, a := range ids {
		t.After = append(t.After, After{ID: a, Reason: "needs"})
	}
	return t
}

func TestLayout(t *testing.T) {
	d := Layout([]Task{after("c", "b"), after("a"), after("b", "a"), after("x", "gone")}, []string{"a", "b", "c"})
	require.Len(t, d.Nodes, 4)
	at := map[string]Node{}
	for _, n := range d.Nodes {
		at[n.ID] = n
		assert.LessOrEqual(t, n.X+NodeWidth, d.Width)
		assert.LessOrEqual(t, n.Y+NodeHeight, d.Height)
	}
	assert.Less(t, at["a"].X, at["b"].X)
	assert.Less(t, at["b"].X, at["c"].X)
	assert.Equal(t, at["a"].X, at["x"].X, "what is not shown is not waited for")
	assert.NotEqual(t, at["a"].Y, at["x"].Y)
	require.Len(t, d.Edges, 2)
	assert.True(t, d.Edges[0].Chain && d.Edges[1].Chain)
}

// A circle, which no plan has, ends; and so does what is too large.
func TestLayoutOfStrangers(t *testing.T) {
	d := Layout([]Task{after("a", "b"), after("b", "a"), after("c", "c")}, nil)
	assert.Len(t, d.Nodes, 3)
	var many []Task
	for i := range 2 * most {
		many = append(many, after(fmt.Sprint(i), fmt.Sprint(i-1)))
	}
	d = Layout(many, nil)
	assert.Len(t, d.Nodes, most)
	assert.Equal(t, most, d.Left)
	assert.Empty(t, Layout(nil, nil).Nodes)
}
