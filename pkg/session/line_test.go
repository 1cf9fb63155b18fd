package session

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/llm"
)

// What is written is what encoding/json writes, with every field that a header or an entry will ever have.
func TestLines(t *testing.T) {
	raw := rapid.SampledFrom([]string{`{}`, `{"a":"<b>"}`, `{"a": [1.50, null]}`})
	how := rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[json.RawMessage](): rapid.Custom(func(t *rapid.T) any {
			return json.RawMessage(raw.Draw(t, "arguments"))
		}),
		reflect.TypeFor[time.Time](): rapid.Custom(func(t *rapid.T) any {
			if rapid.Bool().Draw(t, "unknown") {
				return time.Time{}
			}
			return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		}),
	}}
	headers, entries := rapid.MakeCustom[Header](how), rapid.MakeCustom[llm.Entry](how)
	rapid.Check(t, func(t *rapid.T) {
		for _, v := range []any{headers.Draw(t, "header"), entries.Draw(t, "entry")} {
			got, err := marshal(v)
			require.NoError(t, err)
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			require.NoError(t, enc.Encode(v))
			assert.Equal(t, want.String(), string(got))
		}
	})
}
