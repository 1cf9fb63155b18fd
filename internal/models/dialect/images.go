package dialect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qq/pkg/llm"
)

// imagesBeside returns the messages for a server that takes no images in the results of tools: a message of the user
// behind them shows the images. Without such images it returns messages itself.
func imagesBeside(messages []llm.Message) []llm.Message {
	var out []llm.Message  // nil as long as it would be the same
	var shown *llm.Message // the images of the last results
	for i, m := range messages {
		if m.Role != llm.ToolRole && shown != nil {
			out, shown = append(out, *shown), nil
		}
		if m.Role == llm.ToolRole && len(m.Images) > 0 {
			if out == nil {
				out = append(make([]llm.Message, 0, len(messages)+1), messages[:i]...)
			}
			shown = show(shown, m)
			m.Images = nil
		}
		if out != nil {
			out = append(out, m)
		}
	}
	switch {
	case out == nil:
		return messages
	case shown != nil:
		out = append(out, *shown)
	}
	return out
}

// show adds the images of the result m to a message of the user, which it makes if there is none.
func show(message *llm.Message, m llm.Message) *llm.Message {
	names := make([]string, len(m.Images))
	for i := range m.Images {
		names[i] = filepath.Base(m.Images[i].Name)
	}
	text := fmt.Sprintf("The images of the result of %s: %s.", m.Tool, strings.Join(names, ", "))
	if message == nil {
		return &llm.Message{Role: llm.User, Content: text, Images: slices.Clone(m.Images)}
	}
	message.Content += "\n" + text
	message.Images = append(message.Images, m.Images...)
	return message
}
