package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// playACP is a program that speaks the Agent Client Protocol. What it does depends on the word behind "play" in its
// task.
func playACP() int {
	p := &acpPlayer{player{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: json.NewEncoder(os.Stdout)}}
	p.reply(p.request("initialize"), map[string]any{"protocolVersion": 1})
	p.reply(p.request("session/new"), map[string]any{"sessionId": "s1", "models": map[string]any{
		"currentModelId": "small", "availableModels": []any{map[string]any{"modelId": "large", "name": "Large"}}}})
	model := "small"
	p.until(func(l map[string]any) bool { return l["method"] != nil })
	if p.last["method"] == "session/set_model" {
		model = fmt.Sprint(p.last["params"].(map[string]any)["modelId"])
		p.reply(p.last["id"], map[string]any{})
		p.until(func(l map[string]any) bool { return l["method"] == "session/prompt" })
	}
	text := fmt.Sprint(p.last["params"].(map[string]any)["prompt"])
	_, after, _ := strings.Cut(text, "play ")
	play, _, _ := strings.Cut(strings.TrimRight(after, "]}")+" ", " ")
	return p.act(p.last["id"], play, model)
}

type acpPlayer struct{ player }

func (p *acpPlayer) request(method string) any {
	p.until(func(l map[string]any) bool { return l["method"] == method })
	return p.last["id"]
}

func (p *acpPlayer) reply(id any, result map[string]any) {
	_ = p.out.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (p *acpPlayer) update(kind string, pairs ...any) {
	u := map[string]any{"sessionUpdate": kind}
	for i := 0; i < len(pairs); i += 2 {
		u[pairs[i].(string)] = pairs[i+1]
	}
	_ = p.out.Encode(map[string]any{"jsonrpc": "2.0", "method": "session/update",
		"params": map[string]any{"sessionId": "s1", "update": u}})
}

func (p *acpPlayer) text(text string) {
	p.update("agent_message_chunk", "content", map[string]any{"type": "text", "text": text})
}

func (p *acpPlayer) stop(id any, reason string) {
	p.reply(id, map[string]any{"stopReason": reason, "usage": map[string]any{"inputTokens": 200, "outputTokens": 20}})
}

// ask asks whether a call may run.
func (p *acpPlayer) ask(call map[string]any) bool {
	_ = p.out.Encode(map[string]any{"jsonrpc": "2.0", "id": "q1", "method": "session/request_permission",
		"params": map[string]any{"sessionId": "s1", "toolCall": call, "options": []any{
			map[string]any{"optionId": "always", "kind": "allow_always", "name": "Always"},
			map[string]any{"optionId": "yes", "kind": "allow_once", "name": "Yes"},
			map[string]any{"optionId": "no", "kind": "reject_once", "name": "No"}}}})
	p.until(func(l map[string]any) bool { return l["id"] == "q1" })
	outcome, _ := p.last["result"].(map[string]any)["outcome"].(map[string]any)
	return outcome["optionId"] == "yes"
}

// work makes a call that writes a file, and says its arguments later.
func (p *acpPlayer) work(id any, model string) {
	p.text("I write.")
	p.update("tool_call", "toolCallId", "c1", "title", "Write hello.txt", "kind", "edit", "status", "pending",
		"rawInput", map[string]any{})
	call := map[string]any{"toolCallId": "c1", "title": "Write hello.txt", "kind": "edit",
		"rawInput": map[string]any{"path": "hello.txt"}, "locations": []any{map[string]any{"path": "hello.txt"}},
		"content": []any{map[string]any{"type": "diff", "path": "hello.txt", "newText": "hello\n"}}}
	if !p.ask(call) {
		p.update("tool_call_update", "toolCallId", "c1", "status", "failed")
		p.text("It was not allowed.")
		p.stop(id, "end_turn")
		return
	}
	_ = os.WriteFile("hello.txt", []byte("hello\n"), 0o600)
	p.update("tool_call_update", "toolCallId", "c1", "status", "completed", "rawInput", call["rawInput"],
		"content", call["content"])
	p.text("It is done by ")
	p.text(model + ".")
	p.stop(id, "end_turn")
}

func (p *acpPlayer) act(id any, play, model string) int {
	const done = "It is done."
	switch play {
	case "never":
		away()
		p.text("I begin.")
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "stays":
		p.text(done)
		p.stop(id, "end_turn")
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "failed":
		_ = p.out.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32603,
			"message": "API Error: 529 overloaded"}})
	case "exit1":
		p.text(done)
		p.stop(id, "end_turn")
		return 1
	case "stdin":
		p.text(done)
		p.stop(id, "end_turn")
		_, _ = io.Copy(io.Discard, p.in)
	case "half":
		p.text("Nearly there.")
		fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":{"stopReason":"end_`, id)
	case "long":
		fmt.Print(`{"jsonrpc":"2.0","method":"session/update","params":{"x":"`)
		for range 100 {
			fmt.Print(strings.Repeat("x", 1<<20))
		}
		fmt.Println(`"}}`)
		p.text(done)
		p.stop(id, "end_turn")
	case "grandchild":
		away()
		p.text(done)
		p.stop(id, "end_turn")
	case "silent": // ends well without a word
		p.text("I begin.")
	case "empty":
		p.stop(id, "end_turn")
	case "turns":
		p.text("I begin.")
		p.stop(id, "max_turn_requests")
	case "cut":
		p.text("I begin.")
		p.stop(id, "max_tokens")
	case "other": // the response to another request, and to none
		p.reply(17, map[string]any{"stopReason": "end_turn"})
		p.reply("4", map[string]any{"stopReason": "end_turn"})
		p.text("I begin.")
	case "lodging":
		file := filepath.Join(os.Getenv("XDG_DATA_HOME"), "opencode", "auth.json")
		login, _ := os.ReadFile(file)
		theirs := filepath.Join(os.Getenv("HOME"), ".local", "share", "opencode", "auth.json")
		p.text(fmt.Sprintf("login: %s, written: %v, theirs: %v\narguments: %s\n%s", login,
			os.WriteFile(file, nil, 0o600) == nil, os.WriteFile(theirs, nil, 0o600) == nil,
			strings.Join(os.Args, " "), strings.Join(os.Environ(), "\n")))
		p.stop(id, "end_turn")
	case "noreason":
		p.reply(id, map[string]any{})
	default:
		p.work(id, model)
	}
	return 0
}
