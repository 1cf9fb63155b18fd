package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Offered is what the model of an agent gets besides the text of a task, and how often it is asked.
type Offered struct {
	System   string
	Tools    []tool.Spec
	Schema   json.RawMessage // of the definition; nil if it has none
	MaxTurns int
}

// Offer returns what a run of job begins with. It runs nothing. generated is the system prompt that a model has written
// for the job, or "".
func (a Agent) Offer(job task.Job, generated string) (Offered, error) {
	root, err := os.OpenRoot(".")
	if err != nil {
		return Offered{}, fmt.Errorf("open the working directory: %w", err)
	}
	defer root.Close()
	r := &run{Agent: a, helpers: &helpers{}, job: job}
	r.open(root)
	return Offered{r.prompt(generated), r.tools.offered.Specs(), a.Definition.Schema,
		cmp.Or(a.MaxTurns, a.Definition.MaxTurns, defaultTurns)}, nil
}
