package main

import (
	"context"
	"errors"
	"fmt"

	"qq/internal/standin"
)

// measureTokens measures what the model must read besides the user's words before it can answer:
// the instructions of the agent and its tools.
func measureTokens(ctx context.Context, b *bench) ([]line, error) {
	server := standin.New(standin.ByName())
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.Stop()
	prompt, err := b.overhead(ctx, server, "say something", "-m", "say something")
	if err != nil {
		return nil, err
	}
	file, err := b.tasks(1)
	if err != nil {
		return nil, err
	}
	task, err := b.overhead(ctx, server, "Task 0: say something", "batch", "--agent", "summarizer", "--no-bar", file)
	if err != nil {
		return nil, err
	}
	return []line{
		tokens("one prompt: tokens beside the words of the user", prompt, 800),
		tokens("a task of a batch of the summarizer: tokens beside the words of the user", task, 350),
	}, nil
}

// overhead returns the size of the one request of a run without the words of the user, in tokens
// of four bytes, as the server counts them.
func (b *bench) overhead(ctx context.Context, server *standin.Server, words string, args ...string) (int, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return 0, err
	}
	defer done()
	server.Forget()
	env = append(env, "OLLAMA_HOST="+server.Host())
	if _, err := (command{program: b.bin["qq"], args: args, dir: dir, env: env}).run(ctx); err != nil {
		return 0, err
	}
	chats := server.Chats()
	if len(chats) != 1 {
		return 0, fmt.Errorf("%d requests, want 1", len(chats))
	}
	if chats[0].Task != words {
		return 0, errors.New("the last line of the request is not the task: " + chats[0].Task)
	}
	return (chats[0].Size - len(words)) / 4, nil
}

// tokens returns a line about a number of tokens.
func tokens(what string, n, limit int) line {
	return line{what: what, qq: fmt.Sprintf("%d tokens", n), value: float64(n), limit: float64(limit), unit: "tokens"}
}
