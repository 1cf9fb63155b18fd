package tool

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

type named string

func (n named) Spec() Spec                                  { return Spec{Name: string(n), Effect: Reads} }
func (n named) Run(context.Context, json.RawMessage) Result { return Text(string(n)) }

func TestSet(t *testing.T) {
	s := Set{named("b"), named("a"), named("c")}
	assert.Equal(t, []string{"b", "a", "c"}, s.Names())
	assert.Equal(t, []Spec{{Name: "b", Effect: Reads}, {Name: "a", Effect: Reads}, {Name: "c", Effect: Reads}},
		s.Specs())

	found, ok := s.Lookup("a")
	assert.True(t, ok)
	assert.Equal(t, named("a"), found)
	for _, name := range []string{"", "A", "a ", "d"} {
		_, ok = s.Lookup(name)
		assert.False(t, ok, "a name is matched as it is: %q", name)
	}
	_, ok = Set(nil).Lookup("a")
	assert.False(t, ok)
}

func TestResults(t *testing.T) {
	assert.Equal(t, Result{Content: "x"}, Text("x"))
	assert.Equal(t, Result{Content: "x", Failed: true}, Failure("x"))
}
