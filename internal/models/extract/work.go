package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"qq/internal/models/extract/digest"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// Tools that this package knows how to call.
const (
	listFiles   = "list_files"
	readFile    = "read_file"
	runParallel = "run_parallel_tasks"
)

const (
	helper    = "summarizer" // the agent that gets one file
	mostFiles = 100          // handed out for one request
	pageLines = 2000         // asked for in one call of read_file
	mostReads = 50           // calls for one file
)

// part is one file and what became of it.
type part struct {
	path    string
	answer  string
	problem string // why there is no answer, or one about a part only
}

// answer does the work of a request. When it wants results of tools first, they
// are in t.wanted and the text is of no use.
func (t *talk) answer(ctx context.Context, req request) (string, error) {
	if len(req.targets)+len(req.guesses) > 0 {
		text, err := t.answerNames(ctx, req)
		if err == nil || text != "" || req.material == "" || ctx.Err() != nil {
			return text, err
		} // what looked like the name of a file was a word about the text
	}
	return render(ctx, req.material, "", req.Wish, t.schema)
}

// answerNames does the work of a request that names files.
func (t *talk) answerNames(ctx context.Context, req request) (string, error) {
	files, notes, left := t.find(req)
	switch {
	case len(t.wanted) > 0:
		return "", nil
	case len(files) == 0:
		return "", nothingFound(req, notes)
	}
	return t.answerFiles(ctx, req.Wish, files, notes, left)
}

// nothingFound is the error for names that lead to no file.
func nothingFound(req request, notes []string) error {
	if len(req.targets) == 0 {
		return nothingGiven()
	}
	problem := "no text file found in " + req.targets[0].name
	if len(notes) > 0 {
		problem += ": " + strings.Join(notes, "; ")
	}
	return &llm.Error{Kind: llm.Rejected, Problem: problem, Hint: "check the name and the working directory; a folder is read with all its folders"}
}

// find turns what a request names into files, in the order in which they are
// named, and notes about what was left out. What should have been among the
// files is in left too.
func (t *talk) find(req request) (files, notes, left []string) {
	skipped := 0
	add := func(name string, exts []string) {
		switch {
		case slices.Contains(files, name):
		case binary(name), len(exts) > 0 && !slices.Contains(exts, strings.ToLower(path.Ext(name))):
			skipped++
		default:
			files = append(files, name)
		}
	}
	for _, want := range req.targets {
		if want.pattern == "" {
			add(t.longName(want), nil)
			continue
		}
		found, problem := t.list(want.path, want.pattern)
		if problem != "" && len(found) > 0 {
			problem = "Left out of " + want.name + ": " + problem
		} else if problem != "" {
			problem = "Not found: " + want.name + ": " + problem
		}
		if problem != "" {
			notes, left = append(notes, problem), append(left, strings.ToLower(problem[:1])+problem[1:])
		}
		for _, name := range found {
			add(name, req.exts)
		}
	}
	for _, word := range req.guesses {
		found, problem := t.list(word, "**")
		if len(found) == 0 && problem != "" {
			found, _ = t.list(".", anyCase(word)+"{,.*}")
		}
		for _, name := range found {
			add(name, nil)
		}
	}
	if skipped > 0 {
		notes = append(notes, fmt.Sprintf("Left out: %s without text of the wanted kind.", count(skipped, "file")))
	}
	if extra := len(files) - mostFiles; extra > 0 {
		notes = append(notes, fmt.Sprintf("Left out: %s more than the %d that are handed out at once.", count(extra, "file"), mostFiles))
		left = append(left, fmt.Sprintf("%s left out: at most %d are read at once", count(extra, "document"), mostFiles))
		files = files[:mostFiles]
	}
	return files, notes, left
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// longName is the name of a file that is wanted: with the words before it, if
// there is such a file. All names are looked for at once.
func (t *talk) longName(want target) string {
	if len(want.longer) == 0 {
		return want.path
	}
	pattern := want.longer[0]
	if len(want.longer) > 1 {
		pattern = "{" + strings.Join(want.longer, ",") + "}"
	}
	found, _ := t.list(".", pattern)
	for _, name := range want.longer {
		if slices.Contains(found, name) {
			return name
		}
	}
	return want.path
}

// anyCase is a glob for a word however it is written.
func anyCase(word string) string {
	var b strings.Builder
	for _, r := range word {
		low, high := strings.ToLower(string(r)), strings.ToUpper(string(r))
		if low == high {
			b.WriteString(low)
			continue
		}
		b.WriteString("[" + high + low + "]")
	}
	return b.String()
}

// list returns the files below a folder. Why there are none, or what the tool
// left out, is the problem.
func (t *talk) list(folder, pattern string) (files []string, problem string) {
	result, ok := t.call(listFiles, map[string]string{"path": folder, "pattern": pattern})
	if !ok {
		return nil, ""
	}
	if problem, failed := failed(result); failed {
		return nil, problem
	}
	for line := range strings.Lines(result) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && strings.Contains(line, " ") {
			if problem != "" {
				problem += "; "
			}
			problem += strings.Trim(line, "[]")
		} else if line != "" {
			files = append(files, line)
		}
	}
	if len(files) == 0 && problem == "" {
		problem = "no files"
	}
	return files, problem
}

// binary reports whether the name of a file says that it holds no prose.
func binary(name string) bool {
	const known = " .png .jpg .jpeg .gif .webp .bmp .ico .tif .tiff .svg .psd .mp3 .mp4 .m4a .wav .ogg .flac .avi .mov .mkv .webm .pdf .doc" +
		" .docx .xls .xlsx .ppt .pptx .odt .ods .odp .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .jar .war .whl .deb .rpm .iso .dmg .exe .dll" +
		" .so .dylib .a .o .obj .class .pyc .wasm .bin .dat .db .sqlite .sqlite3 .gguf .safetensors .onnx .pb .npy .parquet .ttf .otf .woff" +
		" .woff2 .eot .lock .sum .map .min.js .pem .key .crt .der .gpg .sig "
	ext := strings.ToLower(path.Ext(name))
	return ext != "" && strings.Contains(known, " "+ext+" ") || strings.HasSuffix(name, ".min.js")
}

// answerFiles answers about one file by reading it, about several by handing
// each to a child, or by reading them where nothing can be handed on.
func (t *talk) answerFiles(ctx context.Context, w digest.Wish, files, notes, left []string) (string, error) {
	parts := make([]part, len(files))
	for i, name := range files {
		parts[i].path = name
	}
	wholesale := len(files) > 1 || !t.offered[readFile]
	if (t.schema == nil && wholesale || t.answered(runParallel)) && t.handOut(w, parts) && t.schema == nil {
		return join(ctx, w, parts, notes, left)
	}
	if len(t.wanted) > 0 {
		return "", nil
	}
	texts := make([]string, len(parts))
	for i := range parts {
		p := &parts[i]
		if texts[i] = p.answer; p.answer == "" && p.problem == "" {
			texts[i] = t.read(p)
		}
	}
	if len(t.wanted) > 0 {
		return "", nil
	}
	if t.schema != nil {
		return t.renderAll(ctx, w, parts, texts)
	}
	for i := range parts {
		p := &parts[i]
		if p.answer != "" || texts[i] == "" && p.problem != "" {
			continue
		}
		text, err := render(ctx, texts[i], p.path, w, nil)
		if err != nil && (ctx.Err() != nil || len(parts) == 1) {
			return "", err
		}
		if p.answer = text; err != nil {
			p.problem = firstLine(err)
		}
	}
	return join(ctx, w, parts, notes, left)
}

// renderAll makes one structured answer about the texts of all files.
func (t *talk) renderAll(ctx context.Context, w digest.Wish, parts []part, texts []string) (string, error) {
	if len(parts) == 1 && parts[0].problem == "" {
		return render(ctx, texts[0], parts[0].path, w, t.schema)
	}
	for _, p := range parts {
		if p.problem != "" { // a structured answer has no place to say what is missing
			return "", nobodyAnswered(w, parts)
		}
	}
	return render(ctx, strings.Join(texts, "\n\n"), "all.md", w, t.schema)
}

// handOut gives each file to a child and fills in what came back. It reports
// false when there is more to do: the call has to be made first, or children
// cannot be had and parts are still without an answer.
func (t *talk) handOut(w digest.Wish, parts []part) bool {
	if !t.offered[runParallel] && !t.answered(runParallel) {
		return false
	}
	type job struct {
		Task  string `json:"task"`
		Agent string `json:"agent"`
	}
	jobs := make([]job, len(parts))
	for i, p := range parts {
		jobs[i] = job{handOn(w, p.path), helper}
	}
	result, ok := t.call(runParallel, map[string]any{"tasks": jobs})
	if !ok {
		return false
	}
	if problem, isFailure := failed(result); isFailure && !t.offered[readFile] {
		for i := range parts {
			parts[i].problem = problem
		}
		return true
	}
	decoder := json.NewDecoder(strings.NewReader(result))
	if _, err := decoder.Token(); err != nil { // the opening bracket
		return false
	}
	done := 0
	for done < len(parts) && decoder.More() {
		var r task.Result
		if decoder.Decode(&r) != nil { // the list was cut here
			break
		}
		p := &parts[done]
		p.answer = strings.TrimSpace(r.Output)
		if !r.Success {
			p.problem = task.Shorten(orText(r.Err(), string(r.Status)), 300)
		} else if p.answer == "" {
			p.problem = "the answer is empty"
		}
		done++
	}
	return done == len(parts)
}

// answered reports whether a tool has been used, though it may no longer be
// offered.
func (t *talk) answered(name string) bool {
	for key := range t.results {
		if strings.HasPrefix(key, name+" ") {
			return true
		}
	}
	return false
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// handOn is the request for one file, in words that parseRequest understands.
func handOn(w digest.Wish, name string) string {
	if strings.ContainsAny(name, " ,'\"") || !pathLike(name) {
		name = "`" + name + "`"
	}
	var b strings.Builder
	for i, p := range w.Products {
		of := " of the file " + name
		if i > 0 {
			b.WriteString(" and ")
			of = ""
		}
		many := ""
		if n := w.Count[p]; n > 0 {
			many = fmt.Sprintf("%d ", n)
		}
		switch p {
		case digest.Points:
			b.WriteString("list the " + many + "key points" + of)
		case digest.Keywords:
			b.WriteString("list the " + many + "keywords" + of)
		case digest.Outline:
			b.WriteString("outline" + strings.TrimPrefix(of, " of"))
		default:
			b.WriteString("summarize" + strings.TrimPrefix(of, " of"))
			if w.Words > 0 {
				fmt.Fprintf(&b, " in %d words", w.Words)
			} else if many != "" {
				b.WriteString(" in " + count(w.Count[p], "sentence"))
			}
		}
	}
	text := b.String()
	if w.Brief {
		text += ", brief"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// firstLine is the first line of an error, which says what is wrong.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
