// Package page renders the pages of qq serve: templates, the style and the script, all embedded.
//
// Tasks, answers and names of files come from models and from strangers. They are in fields of the type [Text], which
// only [Clean] makes: it spells out the characters that a browser would obey or hide. The templates escape them.
//
// Each page can be read without the script. The script adds what is live: it loads parts of a long tree when they are
// opened, follows a run that is at work, and sends forms without leaving the page.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"qq/pkg/tool"
)

//go:embed templates assets
var files embed.FS

// Text is text that a browser shows as it is. Only [Clean] and [Line] make it.
type Text string

// String returns the text.
func (t Text) String() string { return string(t) }

// Clean returns text as a page shows it.
func Clean(text string) Text {
	return Text(tool.Visible(strings.ReplaceAll(text, "\r\n", "\n")))
}

// Line returns the beginning of text as one line of at most that many characters.
func Line(text string, most int) Text {
	if len(text) > 4*most+utf8.UTFMax { // so that a long text costs no more than a short one
		text = strings.ToValidUTF8(text[:4*most+utf8.UTFMax], "")
	}
	line := []rune(tool.Visible(strings.Join(strings.Fields(text), " ")))
	if len(line) > most {
		line = append(line[:most-1], '…')
	}
	return Text(line)
}

// Pages renders pages. Several goroutines may call its methods at once.
type Pages struct{ served, exported *template.Template }

// New returns the pages of a server whose paths begin with root. form is the token of its forms, and field the name of
// the field that has it.
func New(root, field, form string) (*Pages, error) {
	style, err := files.ReadFile("assets/page.css")
	if err != nil {
		return nil, err
	}
	hidden := template.HTML(fmt.Sprintf(`<input type="hidden" name="%s" value="%s">`,
		template.HTMLEscapeString(field), template.HTMLEscapeString(form)))
	funcs := template.FuncMap{
		"root": func() string { return root }, "form": func() template.HTML { return hidden },
		"joburl": func(id string) string { return root + "job/" + id },
		"clean":  Clean, "brief": func(s string) string { return Line(s, 27).String() },
		"short": func(s string) string { return Line(s, 33).String() }, "exported": func() template.HTML { return "" },
	}
	served, err := template.New("").Funcs(funcs).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	// A file has no server: its style is in it, and its links lead to other places of it.
	funcs["root"], funcs["form"] = func() string { return "#" }, func() template.HTML { return "" }
	funcs["joburl"] = func(id string) string { return "#j-" + id }
	funcs["exported"] = func() template.HTML {
		return template.HTML("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src " +
			"'unsafe-inline'\">\n<style>\n" + string(style) + "</style>")
	}
	exported, err := template.New("").Funcs(funcs).ParseFS(files, "templates/*.html")
	return &Pages{served, exported}, err
}

// Show writes the template with that name as a whole answer.
func (p *Pages) Show(w http.ResponseWriter, code int, name string, data any) error {
	b, err := p.HTML(name, data)
	if err != nil {
		http.Error(w, "This page cannot be shown.", http.StatusInternalServerError)
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, err = io.WriteString(w, b)
	return err
}

// HTML returns the template with that name as text.
func (p *Pages) HTML(name string, data any) (string, error) {
	var b bytes.Buffer
	err := p.served.ExecuteTemplate(&b, name, data)
	return b.String(), err
}

// Draw returns the drawing of the template with that name, for a page that is served.
func (p *Pages) Draw(name string, data any) (template.HTML, error) { return draw(p.served, name, data) }

// DrawExport is like [Pages.Draw] for a file.
func (p *Pages) DrawExport(name string, data any) (template.HTML, error) {
	return draw(p.exported, name, data)
}

func draw(t *template.Template, name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err // html/template has escaped it
}

// Export writes a run as one file that needs no other one.
func (p *Pages) Export(w io.Writer, e Export) error {
	return p.exported.ExecuteTemplate(w, "export", e)
}

// Assets serves the style, the script and the icon. Their types are not those of the machine: [http.FileServerFS] would
// also make each process pay for the table of all types before main.
func Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		types := map[string]string{".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
		data, err := files.ReadFile(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(r.URL.Path)]+"; charset=utf-8")
		w.Header().Set("Cache-Control", "private, max-age=3600")
		_, _ = w.Write(data) // the client may be gone
	})
}

// Stamp returns a time for the attribute datetime.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
