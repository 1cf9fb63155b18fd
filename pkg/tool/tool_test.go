package tool

import (
	"context"
	"encoding/json"
	"strings"
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

func TestLine(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"go test \u0026\u0026 echo \"<a>\""}`: `run go test && echo "<a>"`,
		`{"command":"a\nb","timeout":3}`:                  "run command: a\nb, timeout: 3",
		`{"z":["x"],"a":null,"b":{"c":"d"}}`:              `run z: ["x"], a: null, b: {"c":"d"}`,
		`"{\"path\":\"a.txt\"}"`:                          "run a.txt",
		`{}`:                                              "run",
		``:                                                "run",
		`{"a":`:                                           `run {"a":`,
		`{"tasks":[{"task":"Read a.md","agent":"x"},{"agent":"y","task":"b"}]}`: "run 2 tasks: Read a.md, b",
		`{"tasks":[{"task":"Read a.md"}],"wait":true,"rest":[{"a":1},{"b":"c"}]}`: `run 1 task: Read a.md, wait: true, ` +
			`2 rest: {"a":1}, {"b":"c"}`,
		`{"a":[{}],"b":[null],"c":[],"d":[1,{}]}`: `run 1 a: {}, 1 b: null, c: [], d: [1,{}]`,
		`[1]`: "run [1]",
	} {
		assert.Equal(t, want, Call{Name: "run", Arguments: json.RawMessage(args)}.Line(), args)
	}
}

// Whatever a model sends, there is a line for it.
func FuzzLine(f *testing.F) {
	f.Add(`{"a":"b","c":[1,{"d":null}]}`)
	f.Add(`{"tasks":[{"task":"b"}],"c":[null,{"c":"d"}]}`)
	f.Fuzz(func(t *testing.T, args string) {
		if line := (Call{Name: "run", Arguments: json.RawMessage(args)}).Line(); !strings.HasPrefix(line, "run") {
			t.Fatalf("%q became %q", args, line)
		}
	})
}

func TestResults(t *testing.T) {
	assert.Equal(t, Result{Content: "x"}, Text("x"))
	assert.Equal(t, Result{Content: "x", Failed: true}, Failure("x"))
}
