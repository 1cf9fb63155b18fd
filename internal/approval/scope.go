package approval

import "qq/pkg/tool"

// Widely says what else the answer [Session] allows, by the effect of the call: all faces say it with the same words.
func Widely(e tool.Effect) string {
	switch e {
	case tool.Reads, tool.Writes:
		return "any file"
	case tool.Executes:
		return "any command"
	case tool.Network:
		return "any address"
	case tool.Delegates:
		return "any task"
	}
	return "any arguments"
}
