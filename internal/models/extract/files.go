package extract

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// The tools that this package calls.
const (
	listFiles   = "list_files"
	readFile    = "read_file"
	runParallel = "run_parallel_tasks"
)

const (
	helper    = "summarizer" // the agent that gets one file
	mostFiles = 100          // that one request is about
)

// part is one file of a request, with the answer about it.
type part struct {
	path    string
	answer  string
	problem string // why there is no answer, or only one about a part of the file
}

// work is the state of a request about files: what is wanted, the files and their answers, and what is missing.
type work struct {
	wish
	parts   []part
	left    []string // targets that were not found or only in part
	skipped int      // files without prose
}

// answer returns the answer to req. If results of tools are needed first, it adds the calls to t.wanted, and the
// returned text has no meaning. With an incomplete answer it returns an error too.
func (t *talk) answer(req request) (string, error) {
	if len(req.targets) == 0 {
		return quoteText(req.text, "", req.wish, t.schema)
	}
	w := work{wish: req.wish}
	text, err := "", t.find(&w, req.targets)
	if err == nil && len(t.wanted) == 0 {
		text, err = t.answerFiles(&w)
	}
	if err != nil && text == "" && req.text != "" { // no file was found: the request is about its text
		return quoteText(req.text, "", req.wish, t.schema)
	}
	return text, err
}

// find sets w.parts to the files that targets name, in their order. Calls of tools that must be made first are in
// t.wanted. The error says that no file was found.
func (t *talk) find(w *work, targets []target) error {
	var files []string
	for _, want := range targets {
		found, problem := []string{want.path}, ""
		if want.pattern != "" {
			found, problem = t.list(want.path, want.pattern)
		}
		if want.bare && len(found) == 0 && problem != "" { // "readme" may mean README.md
			found, _ = t.list(".", "*")
			found = slices.DeleteFunc(found, func(name string) bool {
				return !strings.EqualFold(strings.TrimSuffix(name, path.Ext(name)), want.path)
			})
			if problem = ""; len(found) == 0 && len(t.wanted) == 0 {
				return unsupported(unknownWord(want.name))
			}
		}
		prefix := "not found: "
		if len(found) > 0 {
			prefix = "left out of "
		}
		if problem != "" {
			w.left = append(w.left, prefix+want.name+": "+problem)
		}
		for _, name := range found {
			if noProse(name) {
				w.skipped++
			} else if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	if len(files) == 0 && len(t.wanted) == 0 {
		problem := "no text file found in " + strings.Join(append([]string{targets[0].name}, w.left...), ": ")
		return &llm.Error{Kind: llm.Rejected, Problem: problem, Hint: "check the name and the working directory; " +
			"a folder is read with all its folders, without programs and data"}
	}
	if extra := len(files) - mostFiles; extra > 0 {
		left := fmt.Sprintf("%s left out: at most %d are read at once", count(extra, "document"), mostFiles)
		w.left = append(w.left, left)
		files = files[:mostFiles]
	}
	for _, name := range files {
		w.parts = append(w.parts, part{path: name})
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list returns the files below a folder that match pattern. problem says why there are none, or what the tool left
// out. If the tool must be called first, both are empty and the call is in t.wanted.
func (t *talk) list(folder, pattern string) (files []string, problem string) {
	result, problem, ok := t.call(listFiles, map[string]string{"path": folder, "pattern": pattern})
	if !ok || problem != "" {
		return nil, problem
	}
	var notes []string
	for line := range strings.Lines(result) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && strings.Contains(line, " ") {
			notes = append(notes, strings.Trim(line, "[]"))
		} else if line != "" {
			files = append(files, line)
		}
	}
	if len(files) == 0 && len(notes) == 0 {
		return nil, "no files"
	}
	return files, strings.Join(notes, "; ")
}

// noProse reports whether the name of a file shows that it contains no prose, but a program, data
// or an image.
func noProse(name string) bool {
	const known = " .png .jpg .jpeg .gif .webp .svg .mp3 .mp4 .wav .ogg .mov .webm .pdf .doc .docx .xls .xlsx .ppt " +
		".pptx .zip .gz .tgz .bz2 .xz .zst .7z .tar .jar .deb .rpm .iso .exe .dll .so .a .o .class .wasm .bin .dat " +
		".db .sqlite .gguf .safetensors .ttf .woff .woff2 .lock .sum .pem .key .json .yaml .yml .toml .xml .ini " +
		".go .mod .c .h .cpp .java .js .jsx .ts .tsx .rs .swift .cs .php .css .scss .py .sh .bash .rb .pl .lua " +
		".sql "
	ext := strings.ToLower(path.Ext(name))
	return ext != "" && has(known, ext)
}

// answerFiles answers about the files in w. It delegates several files, one to each child. It reads a single file
// itself, and several files if it cannot delegate. Calls to make first are in t.wanted.
func (t *talk) answerFiles(w *work) (string, error) {
	share := t.offered[runParallel] && t.schema == nil && (len(w.parts) > 1 || !t.offered[readFile])
	if (share || t.handed) && t.handOut(w) && t.schema == nil {
		return w.join()
	}
	texts := make([]string, len(w.parts))
	for i := range w.parts {
		p := &w.parts[i]
		canRead := len(t.wanted) == 0 || t.wanted[0].Name == readFile
		if texts[i] = p.answer; p.answer == "" && p.problem == "" && canRead {
			texts[i] = t.read(p)
		}
	}
	if len(t.wanted) > 0 {
		return "", nil
	}
	if t.schema != nil {
		for _, p := range w.parts {
			if p.problem != "" { // a structured answer has no place to say what is missing
				return "", w.nothing()
			}
		}
		return quoteText(strings.Join(texts, "\n\n"), w.parts[0].path, w.wish, t.schema)
	}
	for i := range w.parts {
		p := &w.parts[i]
		if p.answer != "" || texts[i] == "" && p.problem != "" {
			continue
		}
		answer, err := quoteText(texts[i], p.path, w.wish, nil)
		if err != nil && len(w.parts) == 1 {
			return "", err
		}
		if p.answer = answer; err != nil {
			p.problem, _, _ = strings.Cut(err.Error(), "\n")
		}
	}
	return w.join()
}

// handOut delegates each file to a child and fills in the answers. It returns false if the call must be made first,
// or if the files must be read in another way.
func (t *talk) handOut(w *work) bool {
	type job struct {
		Task  string `json:"task"`
		Agent string `json:"agent"`
	}
	jobs := make([]job, len(w.parts))
	for i, p := range w.parts {
		jobs[i] = job{w.handOn(p.path), helper}
	}
	result, problem, ok := t.call(runParallel, map[string]any{"tasks": jobs})
	if !ok {
		return false
	}
	if problem != "" && !t.offered[readFile] {
		for i := range w.parts {
			w.parts[i].problem = problem
		}
		return true
	}
	decoder := json.NewDecoder(strings.NewReader(result))
	if _, err := decoder.Token(); err != nil { // the opening bracket
		return false
	}
	for i := range w.parts {
		p := &w.parts[i]
		var r task.Result
		if !decoder.More() || decoder.Decode(&r) != nil { // the list was cut here
			return false
		}
		p.answer = strings.TrimSpace(r.Output)
		switch {
		case !r.Success && r.Err() == "":
			p.problem = string(r.Status)
		case !r.Success:
			p.problem = task.Shorten(task.Line(r.Err()), 300)
		case p.answer == "":
			p.problem = "the answer is empty"
		}
	}
	return true
}
