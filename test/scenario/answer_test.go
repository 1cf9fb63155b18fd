package scenario

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnswer is the plainest run.
func TestAnswer(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		e := w.qq("What?")
		e.answered(hello)
		assert.Empty(t, w.spawned())
	})
}

const verdictSchema = `{"type":"object","additionalProperties":false,"required":["ok","why","list"],"properties":{
	"ok":{"type":"boolean"},"why":{"type":"string"},"list":{"type":"array","items":{"type":"integer"},"minItems":2}}}`

func assertVerdict(t *testing.T, document string) {
	t.Helper()
	var v struct {
		OK   *bool   `json:"ok"`
		Why  *string `json:"why"`
		List []int   `json:"list"`
	}
	d := json.NewDecoder(strings.NewReader(document))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v), "%q", document)
	assert.NotNil(t, v.OK, "ok")
	assert.NotNil(t, v.Why, "why")
	assert.GreaterOrEqual(t, len(v.List), 2, "list")
	assert.False(t, d.More(), "nothing behind the document")
}

// TestSchema: the answer is a document for the schema, and nothing else.
func TestSchema(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		schema := w.file("schema.json", verdictSchema)
		e := w.qq("--schema", schema, "Judge it.")
		if s.dialect == "anthropic" {
			// There a schema is that of a tool which the model has to call. This server does not hold models to it, and
			// a scripted one calls none: qq says so, and does not take what it said for an answer.
			assert.Equal(t, 1, e.code, "exit code")
			assert.Contains(t, e.stderr, "the answer does not fit the schema: it is not JSON")
			w.qq("Judge it.", "--schema", schema, "--json").failed(1, "failed")
			return
		}
		assert.Equal(t, 0, e.code, "exit code")
		assertVerdict(t, e.stdout)

		e = w.qq("Judge it.", "--schema", schema, "--json")
		r := e.json()
		assert.Equal(t, 0, e.code, "exit code")
		assertVerdict(t, *r.Output)
		assertVerdict(t, string(r.Structured))
	})
}

// TestPipe: piped text is the context of a prompt, and the prompt stands last;
// without a prompt, or for -m -, it is the task.
func TestPipe(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		w.start("A text. [[poem]]\n", "What is this?").wait().answered(poem)
		w.start("A text. [[loop]]\n", "What is this? [[poem]]").wait().answered(poem)
		w.start("Say a poem. [[poem]]\n").wait().answered(poem)
		w.start("Say a poem. [[poem]]\n", "-m", "-").wait().answered(poem)
	})
}

// TestWithoutTools: a model that cannot call tools answers all the same, and
// that is said once.
func TestWithoutTools(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, noTools)
		e := w.qq("Say a poem. [[poem]]")
		if s.dialect != "" {
			// Its other interfaces do not say what a model can do, and refuse a request with tools.
			assert.Equal(t, 1, e.code, "exit code")
			assert.Contains(t, e.stderr, "answered 400: registry.ollama.ai/library/notools:latest does not support tools\n")
			return
		}
		e.answered(poem)
		said := 0
		for line := range strings.Lines(e.stderr) {
			if strings.Contains(line, "tools") {
				said++
			}
		}
		assert.Equal(t, 1, said, "lines about tools in %q", e.stderr)
	})
}

// TestNoise: a model that says anything at all is no reason to crash, or to
// write what is not text.
func TestNoise(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, noise)
		e := w.qq("What?", "--json")
		e.json()
		assert.Contains(t, []int{0, 1, 5}, e.code, "done, failed, or the token limit reached")
		assert.True(t, utf8.ValidString(e.stdout))
		assert.NotContains(t, e.stderr, "goroutine ")
	})
}
