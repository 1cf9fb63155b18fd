package files

import (
	"encoding/json"
	"errors"
	"fmt"

	"qq/internal/tools/edit"
	"qq/pkg/tool"
)

func editSpec() tool.Spec {
	return tool.Spec{Name: "edit_file", Effect: tool.Writes,
		Description: `Replace one piece of text in a file. old_text must match exactly once, with its indentation: ` +
			`give enough lines. Example: {"path":"a.go","old_text":"x := 1","new_text":"x := 2"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["path","old_text","new_text"],"properties":{` +
			`"path":{"type":"string"},"old_text":{"type":"string"},"new_text":{"type":"string"}}}`)}
}

// editing holds the decoded arguments of edit_file.
type editing struct {
	path     string
	old, new string
	edit.Edit
}

func parseEdit(args json.RawMessage) (e editing, err error) {
	var raw json.RawMessage
	if err := tool.Decode(args, tool.Fields{"path": &e.path, "old_text": &e.old, "new_text": &raw}); err != nil {
		return e, err
	}
	if e.path == "" {
		return e, tool.Missing("path")
	}
	if raw == nil {
		return e, tool.Missing("new_text")
	}
	if json.Unmarshal(raw, &e.new) != nil {
		return e, errors.New(`argument "new_text" must be text (accepted: new_text, old_text, path)`)
	}
	e.Edit, err = edit.New(e.old, e.new)
	return e, err
}

func (w *Workspace) prepareEdit(args json.RawMessage) (*change, error) {
	e, err := parseEdit(args)
	if err != nil {
		return nil, err
	}
	rel, err := w.existing(e.path)
	if err != nil {
		return nil, err
	}
	c := &change{act: "edit", path: e.path, rel: rel, before: e.old, after: e.new}
	c.make = func(old []byte) ([]byte, error) {
		if isBinary(old) {
			return nil, fmt.Errorf("%s is a binary file of %d bytes and is not edited", e.path, len(old))
		}
		s, err := e.Find(old)
		if errors.Is(err, edit.ErrAbsent) && w.unread(rel, e.path) == "" {
			err = fmt.Errorf("%w: %s", err, e.Nearest(old))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.path, err)
		}
		c.lines = s.Lines(old)
		return s.Apply(old), nil
	}
	return c, nil
}
