package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

const (
	searxng = "searxng"
	brave   = "brave"
	tavily  = "tavily"
)

// Search says which search engine web_search asks. The zero Search means none.
type Search struct {
	Engine string `json:"engine"`        // searxng, brave or tavily
	URL    string `json:"url,omitempty"` // of the engine, when it is not the usual one
	Key    string `json:"key,omitempty"`
}

// NewSearch parses a setting: "searxng=URL", "brave" or "tavily". The keys of the last two come
// from BRAVE_API_KEY and TAVILY_API_KEY; "brave=URL" names another server with the same
// interface. An empty setting means no search. An error has two lines, the problem and a hint.
func NewSearch(setting string, getenv func(string) string) (Search, error) {
	setting = strings.TrimSpace(setting)
	if setting == "" {
		return Search{}, nil
	}
	engine, at, given := strings.Cut(setting, "=")
	s := Search{Engine: strings.ToLower(strings.TrimSpace(engine)), URL: strings.TrimRight(strings.TrimSpace(at), "/")}
	switch s.Engine {
	case searxng, brave, tavily:
	default:
		return Search{}, settingError("accepted are searxng=URL, brave and tavily", "%q is no search engine", engine)
	}
	if u, err := url.Parse(s.URL); (given || s.Engine == searxng) &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			u.RawQuery != "" || u.Fragment != "") {
		return Search{}, settingError("write "+s.Engine+"=http://HOST or "+s.Engine+"=https://HOST/PATH, without a "+
			"user name and without ?",
			"%q is no address of a search engine", s.URL[strings.LastIndexByte(s.URL, '@')+1:]) // without the password
	}
	if name := keyName(s.Engine); name != "" {
		s.Key = strings.TrimSpace(getenv(name))
		if s.Key == "" {
			return Search{}, settingError("set "+name, "%s needs a key", s.Engine)
		}
		odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r > unicode.MaxASCII }
		if strings.ContainsFunc(s.Key, odd) {
			return Search{}, settingError("copy it again, without quotes or line ends",
				"the key in %s contains a character that no key has", name)
		}
	}
	return s, nil
}

func settingError(hint, problem string, what ...any) error {
	return errors.New("QQ_SEARCH: " + fmt.Sprintf(problem, what...) + "\nhint: " + hint)
}

// keyName returns the name of the variable that holds the key of an engine.
func keyName(engine string) string {
	switch engine {
	case brave:
		return "BRAVE_API_KEY"
	case tavily:
		return "TAVILY_API_KEY"
	}
	return ""
}

// base returns the base URL of the engine.
func (s Search) base() string {
	switch {
	case s.URL != "":
		return strings.TrimRight(s.URL, "/")
	case s.Engine == brave:
		return "https://api.search.brave.com/res/v1"
	case s.Engine == tavily:
		return "https://api.tavily.com"
	}
	return ""
}

// host returns the engine's host and port. The user chose it, so it may be a private one.
func (s Search) host() string {
	u, err := url.Parse(s.base())
	if err != nil {
		return ""
	}
	return u.Host
}

// request makes the HTTP request that the engine expects.
func (s Search) request(ctx context.Context, query string, limit int) (*http.Request, error) {
	switch s.Engine {
	case searxng:
		q := url.Values{"q": {query}, "format": {"json"}}
		return http.NewRequestWithContext(ctx, http.MethodGet, s.base()+"/search?"+q.Encode(), nil)
	case brave:
		q := url.Values{"q": {query}, "count": {strconv.Itoa(limit)}, "text_decorations": {"false"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base()+"/web/search?"+q.Encode(), nil)
		if err == nil {
			req.Header.Set("X-Subscription-Token", s.Key)
		}
		return req, err
	case tavily:
		body, err := json.Marshal(map[string]any{"query": query, "max_results": limit})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base()+"/search", bytes.NewReader(body))
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+s.Key)
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}
	return nil, fmt.Errorf("unknown search engine %q", s.Engine)
}

// entry is one result as engines send it: SearXNG and Tavily call the text content, Brave calls
// it description.
type entry struct {
	Title       string
	URL         string
	Content     string
	Description string
}

// decodeHits decodes the answer of an engine. note explains why there are no hits.
func decodeHits(engine string, body []byte) (hits []hit, note string, err error) {
	var answer struct {
		Results      []entry
		Unresponsive []json.RawMessage `json:"unresponsive_engines"`
		Web          *struct{ Results []entry }
		Type         string
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, "", errors.New("the answer is not the JSON of a search")
	}
	entries := answer.Results
	switch {
	case engine == brave && answer.Web != nil:
		entries = answer.Web.Results
	case engine == brave && answer.Type == "search": // nothing was found
	case engine == brave || entries == nil:
		return nil, "", errors.New("the answer has no list of results")
	}
	for _, e := range entries {
		u, err := url.Parse(e.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || len(e.URL) > maxURL {
			continue // nothing that could be fetched
		}
		h := hit{title: tidy(e.Title, titleChars), url: u.String(),
			snippet: tidy(e.Content+e.Description, snippetChars)}
		if h.title == "" {
			h.title = "(no title)"
		}
		hits = append(hits, h)
	}
	if n := len(answer.Unresponsive); n > 0 {
		note = fmt.Sprintf(" (%d of the engines behind it did not answer)", n)
	}
	return hits, note, nil
}

// tidy converts a text of an engine to one line: it decodes escapes and drops the tags that mark
// matching words. Other tags stay, because the text is often about them.
func tidy(s string, chars int) string {
	var b strings.Builder
	for z := html.NewTokenizer(strings.NewReader(s)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return oneLine(b.String(), chars)
		case html.TextToken:
			b.Write(z.Text())
		default:
			raw := string(z.Raw())
			marks := []string{"strong", "b", "em", "i", "mark", "span", "br", "p"}
			if name, _ := z.TagName(); !slices.Contains(marks, string(name)) {
				b.WriteString(raw)
			}
		}
	}
}
