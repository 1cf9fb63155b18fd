package session_test

import (
	"fmt"
	"os"

	"qq/pkg/llm"
	"qq/pkg/session"
)

// A transcript is written by one process, continued by another, and read by anybody.
func Example() {
	dir, err := os.MkdirTemp("", "sessions-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store := session.Open(dir)

	first, err := store.Create(session.Header{Agent: "default", Dir: "/work"})
	if err != nil {
		panic(err)
	}
	for _, m := range []llm.Message{
		{Role: llm.User, Content: "What floats?"},
		{Role: llm.Assistant, Content: "Boats."},
	} {
		if err := first.Add(llm.Entry{Message: m}); err != nil {
			panic(err)
		}
	}
	_, _, err = store.Continue(first.ID())
	fmt.Println("open twice:", err != nil)
	if err := first.Close(); err != nil {
		panic(err)
	}

	id, err := store.Latest("/work")
	if err != nil {
		panic(err)
	}
	second, past, err := store.Continue(id)
	if err != nil {
		panic(err)
	}
	for _, m := range past.Messages() {
		fmt.Println(m.Role+":", m.Content)
	}
	if err := second.Add(llm.Entry{Message: llm.Message{Role: llm.User, Content: "And what else?"}}); err != nil {
		panic(err)
	}
	if err := second.Close(); err != nil {
		panic(err)
	}

	list, err := store.List()
	if err != nil {
		panic(err)
	}
	fmt.Println(len(list), "session:", list[0].Title, list[0].Messages, "messages")
	// Output:
	// open twice: true
	// user: What floats?
	// assistant: Boats.
	// 1 session: What floats? 3 messages
}
