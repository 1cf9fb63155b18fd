package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"qq/internal/tools/edit"
	"qq/internal/tools/store"
	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

// pathAndContent is the JSON Schema of a tool that writes a whole file.
const pathAndContent = `{"type":"object","required":["path","content"],"properties":{` +
	`"path":{"type":"string"},"content":{"type":"string"}}}`

func writeSpec() tool.Spec {
	return tool.Spec{Name: "write_file", Effect: tool.Writes,
		Description: `Write a whole text file. Read a file before you overwrite it; prefer edit_file for a change. ` +
			`Example: {"path":"a.txt","content":"one\n"}`,
		Parameters: json.RawMessage(pathAndContent)}
}

func createSpec() tool.Spec {
	return tool.Spec{Name: "create_file", Effect: tool.Writes,
		Description: `Create a text file that does not exist, and its folders. ` +
			`Example: {"path":"docs/b.md","content":"# B\n"}`,
		Parameters: json.RawMessage(pathAndContent)}
}

func deleteSpec() tool.Spec {
	return tool.Spec{Name: "delete_file", Effect: tool.Writes,
		Description: `Delete one file, never a folder. Example: {"path":"old.txt"}`,
		Parameters: json.RawMessage(
			`{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}`)}
}

// contentArgs decodes the arguments of a tool that writes a whole file. A missing content is an
// error, an empty one is not.
func contentArgs(args json.RawMessage) (path, content string, err error) {
	var raw json.RawMessage
	if err := tool.Decode(args, tool.Fields{"path": &path, "content": &raw}); err != nil {
		return "", "", err
	}
	if path == "" {
		return "", "", tool.Missing("path")
	}
	if raw == nil {
		return "", "", tool.Missing("content")
	}
	if json.Unmarshal(raw, &content) != nil {
		return "", "", errors.New(`argument "content" must be text (accepted: content, path)`)
	}
	return path, content, nil
}

func (w *Workspace) prepareCreate(args json.RawMessage) (*change, error) {
	path, content, err := contentArgs(args)
	if err != nil {
		return nil, err
	}
	rel, exists, err := w.place(path)
	if err != nil {
		return nil, err
	}
	if exists {
		return nil, existsError(path)
	}
	return creation(path, rel, content), nil
}

func existsError(path string) error {
	return fmt.Errorf("%s exists: change it with edit_file, or read it and overwrite it with write_file", path)
}

func creation(path, rel, content string) *change {
	return &change{act: "create", path: path, rel: rel, after: content,
		make: func([]byte) ([]byte, error) { return []byte(content), nil }}
}

func (w *Workspace) prepareWrite(args json.RawMessage) (*change, error) {
	path, content, err := contentArgs(args)
	if err != nil {
		return nil, err
	}
	rel, exists, err := w.place(path)
	if err != nil {
		return nil, err
	}
	if !exists {
		return creation(path, rel, content), nil
	}
	return &change{act: "overwrite", path: path, rel: rel, after: content,
		make: func(old []byte) ([]byte, error) {
			if isBinary(old) {
				return nil, fmt.Errorf("%s is a binary file of %d bytes and is not overwritten", path, len(old))
			}
			sum, known := w.known(rel)
			switch {
			case !known:
				return nil, fmt.Errorf("%s exists: read it before you overwrite it", path)
			case sum != store.Sum(old):
				return nil, fmt.Errorf("%s changed since you read it: read it again", path)
			}
			return edit.Keep(old, content), nil
		}}, nil
}

func (w *Workspace) prepareDelete(args json.RawMessage) (*change, error) {
	var path string
	if err := tool.Decode(args, tool.Fields{"path": &path}); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, tool.Missing("path")
	}
	if target, ok := w.link(path); ok {
		return nil, fmt.Errorf("%s is a link to %s: links are not deleted, only files", path, tree.Printable(target))
	}
	rel, err := w.existing(path)
	if err != nil {
		return nil, err
	}
	return &change{act: "delete", path: path, rel: rel}, nil
}

// link returns the target of path, if the last part of path is a link.
func (w *Workspace) link(path string) (target string, ok bool) {
	rel, err := w.local(path)
	if err != nil {
		return "", false
	}
	dir, err := w.resolve(filepath.Dir(rel))
	if err != nil {
		return "", false
	}
	target, err = w.root.Readlink(filepath.Join(dir, filepath.Base(rel)))
	return target, err == nil
}

// countLines counts the lines of a content. The last line may lack its newline.
func countLines(content []byte) int {
	n := bytes.Count(content, []byte{'\n'})
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
