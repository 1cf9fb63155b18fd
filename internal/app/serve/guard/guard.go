// Package guard decides which requests a server on the loopback address answers: those of the browser that the person
// has opened, and of nobody else.
//
// Other programs and web pages can reach such a server too. [Guard] keeps them out:
//
//   - Each address that [Guard.Address] gives works once. Opening it sets a cookie, and only requests with the cookie
//     are answered.
//   - All paths begin with a part that is chosen at random, and the cookie is for that part only. Cookies do not know
//     ports: without it, servers of other users on this machine would get the cookie.
//   - The Host must be the address of the server, so that no foreign name can be pointed at it (DNS rebinding).
//   - What another site or another port asks for is refused, whatever cookies come with it.
//   - Each POST needs the Origin of the server and the token that is in the forms of its pages.
package guard

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	cookieName = "qq"
	// FormField is the name of the form field that has the form token.
	FormField = "form"
	// maxForm is the size of the largest form, in bytes.
	maxForm = 1 << 20
	// maxOpen is how many addresses may be open at once that nobody has used. The oldest is dropped.
	maxOpen = 8
)

// Policy is the content security policy of all pages: nothing comes from elsewhere, and nothing runs that is not a
// file of this server.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Refusal says in words why a request is not answered.
type Refusal struct {
	Code    int // of HTTP
	Problem string
	Hint    string
}

// Guard lets in one person. Several goroutines may call its methods at once.
type Guard struct {
	hosts   []string // that the server has
	prefix  string   // of all paths
	session string   // value of the cookie
	form    string   // value of FormField
	refused func(http.ResponseWriter, Refusal)

	mu   sync.Mutex
	open []string // tokens that nobody has used
}

// New returns a guard of a server at host, such as 127.0.0.1:4711. It refuses requests with refuse.
func New(host string, refuse func(http.ResponseWriter, Refusal)) *Guard {
	hosts := []string{host}
	if port, ok := strings.CutPrefix(host, "127.0.0.1:"); ok {
		hosts = append(hosts, "localhost:"+port)
	}
	short := make([]byte, 8)
	_, _ = rand.Read(short) // never fails
	return &Guard{
		hosts: hosts, prefix: "/" + hex.EncodeToString(short) + "/", session: secret(), form: secret(), refused: refuse,
	}
}

// secret returns 256 random bits as text.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Root returns the path with which all others begin. It ends with a slash.
func (g *Guard) Root() string { return g.prefix }

// Form returns the value that each form has as [FormField].
func (g *Guard) Form() string { return g.form }

// Address returns a new address for a browser. It works once.
func (g *Guard) Address() string {
	token := secret()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open = append(g.open, token); len(g.open) > maxOpen {
		g.open = g.open[1:]
	}
	return "http://" + g.hosts[0] + g.prefix + "open?token=" + token
}

// use reports whether token is of an address that nobody has used. From now on it is not.
func (g *Guard) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := -1
	for i, t := range g.open {
		if same(t, token) {
			found = i
		}
	}
	if found < 0 {
		return false
	}
	g.open = append(g.open[:found:found], g.open[found+1:]...)
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Wrap returns a handler that asks next for what the guard lets through. next sees paths without the prefix. opened
// answers the first request of a browser, which has got its cookie.
func (g *Guard) Wrap(next, opened http.Handler) http.Handler {
	inner := http.StripPrefix(strings.TrimSuffix(g.prefix, "/"), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if refusal := g.check(r); refusal != nil {
			g.refused(w, *refusal)
			return
		}
		if r.URL.Path != g.prefix+"open" {
			inner.ServeHTTP(w, r)
			return
		}
		if !g.has(r) || r.URL.Query().Get("token") != "" {
			if r.Method != http.MethodGet || !g.use(r.URL.Query().Get("token")) {
				g.refused(w, Refusal{http.StatusForbidden, "This address was used before, or is not complete.",
					"Press Enter in the terminal of qq serve: it prints a new one."})
				return
			}
			http.SetCookie(w, &http.Cookie{
				Name: cookieName, Value: g.session, Path: g.prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
		}
		opened.ServeHTTP(w, r)
	})
}

// headers sets what all answers have.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer, browsers hide the Origin of a form too.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// check returns why r is refused; nil if it is not.
func (g *Guard) check(r *http.Request) *Refusal {
	known := false
	for _, h := range g.hosts {
		known = known || r.Host == h
	}
	if !known {
		return &Refusal{http.StatusMisdirectedRequest, "This is not the address of this server.",
			"Use the address that qq serve has printed."}
	}
	opens := r.URL.Path == g.prefix+"open" // its token is a proof of its own; the link may be in a web page
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := site != "" && site != "same-origin" && site != "none"
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host {
		foreign = true
	}
	if foreign && !opens {
		return &Refusal{http.StatusForbidden, "Another site has asked for this.",
			"Type the address, or use a bookmark."}
	}
	if opens {
		return nil
	}
	if !strings.HasPrefix(r.URL.Path, g.prefix) || !g.has(r) {
		return &Refusal{http.StatusForbidden, "This browser has not been let in.",
			"Use the address that qq serve has printed. Press Enter in its terminal for a new one."}
	}
	return g.checkMethod(r, origin)
}

// checkMethod returns why a request with the cookie is refused; nil if it is not.
func (g *Guard) checkMethod(r *http.Request, origin string) *Refusal {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost:
	default:
		return &Refusal{http.StatusMethodNotAllowed, "Only GET, HEAD and POST are answered.", ""}
	}
	if origin == "" {
		return &Refusal{http.StatusForbidden, "The request does not say which page it is from.",
			"Send it from a page of this server."}
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return &Refusal{http.StatusBadRequest, "The form cannot be read: " + err.Error() + ".",
			"A form has at most 1 MiB."}
	}
	if !same(r.PostForm.Get(FormField), g.form) {
		return &Refusal{http.StatusForbidden, "The form is not from this server, or from an earlier one.",
			"Load the page again, then send it again."}
	}
	return nil
}

// has reports whether r has the cookie.
func (g *Guard) has(r *http.Request) bool {
	for _, c := range r.CookiesNamed(cookieName) {
		if same(c.Value, g.session) {
			return true
		}
	}
	return false
}

// Server returns a server with limits for handler. An answer that is a stream sets its own deadlines.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
