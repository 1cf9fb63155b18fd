package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"qq/pkg/task"
)

// Key returns a hash of the content of t and of extra: tasks with the same key ask for the same. The ID of t does not
// count, nor when it starts; the results that it needs do. extra is what else the answer depends on, such as the
// definition of the agent or the content of the file that the task was made from.
func Key(t task.Task, extra ...string) string {
	t = t.Normalized()
	h := sha256.New()
	// Texts are hashed as they are, because JSON would replace invalid UTF-8.
	write := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	write(t.Text)
	write(t.Context)
	write(schema(t.Schema))
	write(t.Dir)
	if t.Needed != "" {
		write(t.Needed)
	}
	t.ID, t.Text, t.Context, t.Schema, t.Dir = "", "", "", nil, ""
	t.Needs, t.Priority, t.Role, t.CheckAsked = nil, 0, "", false // when it runs and who asks, not what it asks for
	rest, err := json.Marshal(struct {
		task.Task
		Denied []string `json:"denied,omitempty"`
	}{t, t.Denied})
	if err != nil { // only for a timeout of NaN, which no valid task has
		rest = fmt.Appendf(nil, "%+v", t)
	}
	write(string(rest))
	for _, s := range extra {
		write(s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// schema returns s without insignificant white space.
func schema(s json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, s) != nil {
		return string(s)
	}
	return b.String()
}
