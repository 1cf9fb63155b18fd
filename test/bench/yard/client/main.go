// Command client is a yardstick: the least that a Go program does to put one
// question to a model and print the answer. Usage: client URL MODEL PROMPT
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream"`
}

type chunk struct {
	Message message `json:"message"`
	Done    bool    `json:"done"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: client URL MODEL PROMPT")
		os.Exit(2)
	}
	if err := ask(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func ask(url, model, prompt string) error {
	body, err := json.Marshal(request{Model: model, Messages: []message{{"user", prompt}}, Stream: true})
	if err != nil {
		return err
	}
	resp, err := http.Post(url+"/api/chat", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var c chunk
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		os.Stdout.WriteString(c.Message.Content)
		if c.Done {
			_, err := os.Stdout.WriteString("\n")
			return err
		}
	}
	return errors.Join(lines.Err(), errors.New("the answer broke off"))
}
