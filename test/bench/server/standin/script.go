package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// message is what the model "script" reads of a message to it.
type message struct{ Role, Content string }

// step is a task for the model "script", written as JSON: call this tool so
// often, in one answer. If that is more than once, {i} in its arguments stands for
// the number of the call: a task that is handed on may be a step itself.
type step struct {
	Tool      string
	Times     int
	Arguments map[string]string
}

// toolCall is a call in Ollama's form.
type toolCall struct {
	Function function `json:"function"`
}

type function struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

// play answers a task with its calls, and their results with the last of them.
func play(messages []message) (texts []string, calls []toolCall, err error) {
	if len(messages) == 0 {
		return nil, nil, errors.New("no messages")
	}
	last := messages[len(messages)-1]
	if last.Role == "tool" {
		return []string{last.Content}, nil, nil
	}
	var s step
	if err := json.Unmarshal([]byte(last.Content), &s); err != nil {
		return nil, nil, fmt.Errorf("read the script: %w", err)
	}
	for i := range s.Times {
		arguments := map[string]string{}
		for name, value := range s.Arguments {
			if s.Times > 1 {
				value = strings.ReplaceAll(value, "{i}", strconv.Itoa(i))
			}
			arguments[name] = value
		}
		calls = append(calls, toolCall{function{s.Tool, arguments}})
	}
	return nil, calls, nil
}
