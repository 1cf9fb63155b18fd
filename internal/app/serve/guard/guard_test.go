package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const host = "127.0.0.1:4711"

// newGuard returns a guard, and a handler behind it that answers "in PATH" and "opened".
func newGuard() (*Guard, http.Handler) {
	g := New(host, func(w http.ResponseWriter, r Refusal) { http.Error(w, r.Problem, r.Code) })
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w,
				text+r.URL.Path)
		})
	}
	return g, g.Wrap(say("in "), say("opened "))
}

// asked is what h answers to r.
func asked(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func get(target string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = host
	return r
}

// let opens an address and returns the cookie.
func let(t *testing.T, g *Guard, h http.Handler) *http.Cookie {
	t.Helper()
	w := asked(h, get(g.Address()))
	require.Equal(t, http.StatusOK, w.StatusCode)
	require.Len(t, w.Cookies(), 1)
	return w.Cookies()[0]
}

func TestAddressWorksOnce(t *testing.T) {
	g, h := newGuard()
	address := g.Address()
	first := asked(h, get(address))
	require.Equal(t, http.StatusOK, first.StatusCode)
	c := first.Cookies()[0]
	assert.True(t, c.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, c.SameSite)
	assert.Equal(t, g.Root(), c.Path, "other ports of this host do not get it")

	assert.Equal(t, http.StatusForbidden, asked(h, get(address)).StatusCode, "a token that was used")
	again := get(address)
	again.AddCookie(c)
	assert.Equal(t, http.StatusForbidden, asked(h, again).StatusCode, "a token that was used, with the cookie")
	assert.Equal(t, http.StatusForbidden, asked(h, get(g.Root()+"open")).StatusCode, "no token")
	assert.Equal(t, http.StatusForbidden, asked(h, get(g.Root()+"open?token=")).StatusCode, "an empty token")
	head := get(g.Address())
	head.Method = http.MethodHead
	assert.Equal(t, http.StatusForbidden, asked(h, head).StatusCode)

	in := get(g.Root() + "run/1")
	in.AddCookie(c)
	w := asked(h, in)
	text, _ := io.ReadAll(w.Body)
	assert.Equal(t, "in /run/1", string(text))
	assert.Contains(t, w.Header.Get("Content-Security-Policy"), "default-src 'none'")
	assert.NotContains(t, w.Header.Get("Content-Security-Policy"), "unsafe")
	assert.Equal(t, "no-store", w.Header.Get("Cache-Control"))
}

func TestOldAddressesAreDropped(t *testing.T) {
	g, h := newGuard()
	first := g.Address()
	for range maxOpen {
		g.Address()
	}
	assert.Equal(t, http.StatusForbidden, asked(h, get(first)).StatusCode)
}

// Each row is one thing that is wrong with a request that is otherwise answered.
func TestRefused(t *testing.T) {
	g, h := newGuard()
	cookie := let(t, g, h)
	post := func(change func(*http.Request, url.Values)) *http.Request {
		form := url.Values{FormField: {g.Form()}, "id": {"1"}}
		r := httptest.NewRequest(http.MethodPost, g.Root()+"cancel", nil)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(cookie)
		change(r, form)
		r.Body = io.NopCloser(strings.NewReader(form.Encode()))
		return r
	}
	page := func(change func(*http.Request)) *http.Request {
		r := get(g.Root())
		r.AddCookie(cookie)
		change(r)
		return r
	}
	require.Equal(t, http.StatusOK, asked(h, post(func(*http.Request, url.Values) {})).StatusCode)
	require.Equal(t, http.StatusOK, asked(h, page(func(*http.Request) {})).StatusCode)
	local := page(func(r *http.Request) { r.Host = "localhost:4711" })
	require.Equal(t, http.StatusOK, asked(h, local).StatusCode)

	for name, r := range map[string]*http.Request{
		"a foreign name (DNS rebinding)": page(func(r *http.Request) { r.Host = "evil.example:4711" }),
		"another port":                   page(func(r *http.Request) { r.Host = "127.0.0.1:80" }),
		"no host":                        page(func(r *http.Request) { r.Host = "" }),
		"no cookie":                      page(func(r *http.Request) { r.Header.Del("Cookie") }),
		"a wrong cookie":                 page(func(r *http.Request) { r.Header.Set("Cookie", "qq=x") }),
		"no prefix":                      page(func(r *http.Request) { r.URL.Path = "/" }),
		"read by another site":           page(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }),
		"read by another port":           page(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }),
		"read with a foreign origin":     page(func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:80") }),
		"a strange method":               page(func(r *http.Request) { r.Method = http.MethodPut }),
		"a form of another site": post(func(r *http.Request, _ url.Values) {
			r.Header.Set("Origin", "http://evil.example")
		}),
		"a form of a page without origin": post(func(r *http.Request, _ url.Values) { r.Header.Set("Origin", "null") }),
		"a form that hides its origin":    post(func(r *http.Request, _ url.Values) { r.Header.Del("Origin") }),
		"a form without token":            post(func(_ *http.Request, f url.Values) { f.Del(FormField) }),
		"a form with a wrong token":       post(func(_ *http.Request, f url.Values) { f.Set(FormField, "x") }),
		"a form without cookie":           post(func(r *http.Request, _ url.Values) { r.Header.Del("Cookie") }),
		"a token in the address": post(func(r *http.Request, f url.Values) {
			r.URL.RawQuery = f.Encode()
			f.Del(FormField)
		}),
		"a form that is too long": post(func(_ *http.Request, f url.Values) {
			f.Set("text", strings.Repeat("x",
				maxForm))
		}),
	} {
		assert.GreaterOrEqual(t, asked(h, r).StatusCode, 400, name)
	}
}
