package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// playClaude is a program that speaks as Claude Code does. What it does depends on the word behind "play" in its task.
func playClaude() int {
	p := &player{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: json.NewEncoder(os.Stdout)}
	p.until(func(l map[string]any) bool { return l["type"] == "control_request" })
	p.say("control_response", "response", map[string]any{"subtype": "success", "request_id": p.last["request_id"]})
	if inPlay("late") {
		_, _ = io.Copy(io.Discard, p.in) // waits for the end of stdin, although the task is there
	}
	p.until(func(l map[string]any) bool { return l["type"] == "user" })
	text := fmt.Sprint(p.last["message"].(map[string]any)["content"])
	_, after, _ := strings.Cut(text, "play ")
	play, _, _ := strings.Cut(after+" ", " ")
	if slices.Contains(os.Args, "--resume") {
		play = "repair"
	}
	p.say("system", "subtype", "init", "session_id", "11111111-2222-4333-8444-555555555555", "model", "m")
	return p.act(play, text)
}

// inPlay reports whether the program was started to play that, before it has read its task.
func inPlay(what string) bool {
	dir, _ := os.Getwd()
	_, err := os.Stat(filepath.Join(dir, "play-"+what))
	return err == nil
}

type player struct {
	in   *bufio.Reader
	out  *json.Encoder
	last map[string]any
	n    int
}

// until reads lines until one is good.
func (p *player) until(good func(map[string]any) bool) {
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			os.Exit(3)
		}
		p.last = nil
		if json.Unmarshal(line, &p.last) == nil && good(p.last) {
			return
		}
	}
}

func (p *player) say(kind string, pairs ...any) {
	l := map[string]any{"type": kind}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i].(string)] = pairs[i+1]
	}
	_ = p.out.Encode(l)
}

// message is an answer with a text, or with a call.
func (p *player) message(block map[string]any) {
	p.n++
	p.say("assistant", "session_id", "s", "message", map[string]any{
		"id": fmt.Sprint("m", p.n), "role": "assistant", "content": []any{block},
		"usage": map[string]any{"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 5},
	})
}

func (p *player) text(text string) { p.message(map[string]any{"type": "text", "text": text}) }

// call asks for a call and says whether it may run.
func (p *player) call(name string, input map[string]any) bool {
	id := fmt.Sprint("call", p.n)
	p.message(map[string]any{"type": "tool_use", "id": id, "name": name, "input": input})
	p.say("control_request", "request_id", id, "request", map[string]any{
		"subtype": "can_use_tool", "tool_name": name, "input": input, "tool_use_id": id})
	p.until(func(l map[string]any) bool { return l["type"] == "control_response" })
	reply := p.last["response"].(map[string]any)["response"].(map[string]any)
	allowed := reply["behavior"] == "allow"
	result := "done"
	if !allowed {
		result = fmt.Sprint(reply["message"])
	}
	p.say("user", "message", map[string]any{"role": "user", "content": []any{map[string]any{
		"type": "tool_result", "tool_use_id": id, "is_error": !allowed, "content": result}}})
	return allowed
}

func (p *player) result(answer string, pairs ...any) {
	p.say("result", append([]any{"subtype", "success", "is_error", false, "result", answer, "session_id",
		"11111111-2222-4333-8444-555555555555", "total_cost_usd", 0.25, "num_turns", 2,
		"usage", map[string]any{"input_tokens": 200, "output_tokens": 20, "cache_read_input_tokens": 10}}, pairs...)...)
}

// write makes a call that writes a file.
func (p *player) write(name, text string) {
	if p.call("Write", map[string]any{"file_path": name, "content": text}) {
		_ = os.WriteFile(name, []byte(text), 0o600)
	}
}

// away starts a process that leaves the session and keeps stdout open.
func away() {
	cmd := exec.Command("/bin/sleep", "3600")
	cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
}

func (p *player) act(play, text string) int {
	switch play {
	case "never": // a result that never comes
		away()
		p.text("I begin.")
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "stays": // for hours after its result
		p.result("It is done.")
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "failed": // and the exit code is 0
		p.text("I cannot.")
		p.result("API Error: 529 overloaded", "is_error", true)
	case "subtype":
		p.result("", "subtype", "error_during_execution", "is_error", true, "errors", []string{"it broke"})
	case "turns":
		p.result("", "subtype", "error_max_turns", "is_error", true)
	case "exit1": // and the result is good
		p.result("It is done.")
		return 1
	case "stdin": // waits for its end after the result
		p.result("It is done.")
		_, _ = io.Copy(io.Discard, p.in)
	case "half":
		p.text("Nearly there.")
		fmt.Print(`{"type":"result","subtype":"success","is_error":false,"result":"It is do`)
	case "unended": // a result without the end of its line
		fmt.Print(`{"type":"result","subtype":"success","is_error":false,"result":"It is done."}`)
	case "long": // a line of 100 MB
		piece := strings.Repeat("x", 1<<20)
		fmt.Print(`{"type":"assistant","message":{"content":"`)
		for range 100 {
			fmt.Print(piece)
		}
		fmt.Println(`"}}`)
		p.result("It is done.")
	case "grandchild": // holds the pipe
		away()
		p.result("It is done.")
	case "silent": // ends well without a word
	case "empty":
		p.result("")
	case "noise":
		fmt.Print("warning: not JSON\n{\"type\":\"what\"}\n[]\nnull\n{\"type\":\"result\",\"subtype\":7}\n\x1b[2J\n")
		fmt.Fprint(os.Stderr, "some \x1b[31mnoise\n")
		p.result("It is \x1b[2Jdone.")
	case "spends":
		for range 100 {
			p.text("More.")
			time.Sleep(20 * time.Millisecond)
		}
		p.result("It is done.")
	case "asks": // when somebody can answer
		for !inPlay("go") {
			time.Sleep(10 * time.Millisecond)
		}
		if p.call("Bash", map[string]any{"command": "touch \x1b[2Jmade"}) {
			_ = os.WriteFile("made", nil, 0o600)
		}
		p.result("It is done.")
	case "env":
		p.result(strings.Join(append(os.Environ(), os.Args...), "\n"))
	case "outside":
		home := os.Getenv("HOME")
		err := os.WriteFile(filepath.Join(home, "escaped"), []byte("x"), 0o600)
		own := os.WriteFile(filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "state"), []byte("x"), 0o600)
		inside := os.WriteFile("inside", []byte("x"), 0o600)
		p.result(fmt.Sprintf("home: %v, own: %v, inside: %v", err != nil, own == nil, inside == nil))
	case "repair": // in a later turn of the same conversation
		_ = os.WriteFile("repaired", nil, 0o600)
		p.result("second: " + text)
	default:
		p.write("hello.txt", "hi\n")
		p.text("It is done.")
		p.result("It is done.")
	}
	return 0
}
