// Package chromium drives the Chromium of this machine as a person would: it loads pages, types, clicks, and looks.
//
// It speaks the protocol of its developer tools over two pipes, so there is no port that others could use. Each
// [Browser] has a folder of its own, and nothing of it is left when its test has ended.
package chromium

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitTime is how long something on a page may take.
const waitTime = 20 * time.Second

// Program returns the path of Chromium. A test is skipped where there is none, unless QQ_CHROMIUM_REQUIRED is set.
func Program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("QQ_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if os.Getenv("QQ_CHROMIUM_REQUIRED") != "" {
		t.Fatal("there is no Chromium: test/chromium/tools.sh installs it")
	}
	t.Skip("there is no Chromium: test/chromium/tools.sh installs it")
	return ""
}

// Browser is a Chromium without a window.
type Browser struct {
	t    testing.TB
	cmd  *exec.Cmd
	to   *os.File
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	last    int
	replies map[int]chan message
	events  map[string][]chan message // by session and method
	wrong   []string
}

// message is one message of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a Chromium that ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := Program(t)
	dir, err := os.MkdirTemp("", "qq-chromium-*")
	if err != nil {
		t.Fatal(err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, to: to, done: make(chan struct{}), replies: map[int]chan message{},
		events: map[string][]chan message{}}
	b.cmd = exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+dir,
		"about:blank")
	b.cmd.ExtraFiles = []*os.File{in, out}
	b.cmd.Env = append(os.Environ(), "HOME="+dir)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	go b.read(from)
	t.Cleanup(func() {
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = b.cmd.Wait()
		<-b.done
		to.Close()
		for range 50 { // its helpers may still write
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s cannot be removed", dir)
	})
	return b
}

// read hands on what the browser says, until it ends.
func (b *Browser) read(from *os.File) {
	defer close(b.done)
	defer from.Close()
	for lines := bufio.NewReaderSize(from, 1<<20); ; {
		text, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" {
			b.wrong = append(b.wrong, string(m.Params))
		}
		if c := b.replies[m.ID]; m.ID != 0 && c != nil {
			delete(b.replies, m.ID)
			c <- m
		}
		for _, c := range b.events[m.Session+m.Method] {
			select {
			case c <- m:
			default:
			}
		}
		b.mu.Unlock()
	}
}

// call asks the browser for something, and decodes the result into to, which may be nil.
func (b *Browser) call(session, method string, params, to any) error {
	args, err := json.Marshal(params)
	if err != nil {
		return err
	}
	reply := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: args}
	b.replies[m.ID] = reply
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case r := <-reply:
		if r.Error != nil {
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		if to != nil {
			return json.Unmarshal(r.Result, to)
		}
		return nil
	case <-b.done:
		return errors.New("the browser has ended")
	case <-time.After(waitTime):
		return fmt.Errorf("%s: no reply in %v", method, waitTime)
	}
}

// Page is one page of a browser.
type Page struct {
	b       *Browser
	t       testing.TB
	session string
}

// Wrong returns what has gone wrong on pages so far: errors of scripts, and what a policy has forbidden.
func (b *Browser) Wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.wrong...)
}

// View is how a page is shown.
type View struct {
	Width, Height int
	Dark          bool
	NoScript      bool
}

// Page opens an empty page.
func (b *Browser) Page(v View) *Page {
	b.t.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	var attached struct {
		ID string `json:"sessionId"`
	}
	b.must(b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target))
	b.must(b.call("", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached))
	p := &Page{b: b, t: b.t, session: attached.ID}
	p.Look(v)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.Do(domain+".enable", nil, nil)
	}
	return p
}

func (b *Browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Do calls a method of the protocol.
func (p *Page) Do(method string, params map[string]any, to any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.b.must(p.b.call(p.session, method, params, to))
}

// Look changes how the page is shown.
func (p *Page) Look(v View) {
	p.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.Do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.Do("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.Do("Emulation.setScriptExecutionDisabled", map[string]any{"value": v.NoScript}, nil)
}

// Open loads an address and waits until the page is there.
func (p *Page) Open(address string) {
	p.t.Helper()
	loaded := make(chan message, 1)
	p.b.mu.Lock()
	key := p.session + "Page.loadEventFired"
	p.b.events[key] = append(p.b.events[key], loaded)
	p.b.mu.Unlock()
	var result struct {
		Error string `json:"errorText"`
	}
	p.Do("Page.navigate", map[string]any{"url": address}, &result)
	if result.Error != "" && result.Error != "net::ERR_ABORTED" {
		p.t.Fatalf("%s: %s", address, result.Error)
	}
	select {
	case <-loaded:
	case <-time.After(waitTime):
		p.t.Fatalf("%s: not loaded in %v", address, waitTime)
	}
}

// Eval returns the value of a JavaScript expression as JSON, decoded into to.
func (p *Page) Eval(expression string, to any) error {
	var reply struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.b.call(p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &reply)
	if err != nil {
		return err
	}
	if e := reply.Exception; e != nil {
		return fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if to == nil || len(reply.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(reply.Result.Value, to)
}

// Text returns what a person reads on the page.
func (p *Page) Text() string {
	var text string
	if err := p.Eval("document.body.innerText", &text); err != nil {
		return err.Error()
	}
	return text
}

// Until waits until a JavaScript expression is true.
func (p *Page) Until(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitTime)
	defer cancel()
	for {
		var is bool
		err := p.Eval("Boolean("+expression+")", &is)
		if err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("never true: %s (%v)\n%s", expression, err, p.Text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Reads waits until the page has a text.
func (p *Page) Reads(text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text) // a string never fails
	p.Until("document.body && document.body.innerText.includes(" + string(quoted) + ")")
}

// Click clicks on what a CSS selector selects, where it is.
func (p *Page) Click(selector string) {
	p.t.Helper()
	quoted, _ := json.Marshal(selector) // a string never fails
	p.Until("document.querySelector(" + string(quoted) + ")?.checkVisibility()")
	var at struct{ X, Y float64 }
	p.b.must(p.Eval(`(() => { const e = document.querySelector(`+string(quoted)+`); e.scrollIntoView({block: "center"});
const r = e.getBoundingClientRect(); return {X: r.x + Math.min(r.width / 2, 60), Y: r.y + r.height / 2}; })()`, &at))
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.Do("Input.dispatchMouseEvent", map[string]any{
			"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// Type types a text where the focus is.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Do("Input.insertText", map[string]any{"text": text}, nil)
}

// Key presses a key, such as Tab or Enter, or a letter.
func (p *Page) Key(key string) {
	p.t.Helper()
	press := map[string]any{"type": "keyDown", "key": key}
	switch {
	case len(key) == 1:
		press["text"] = key
	case key == "Enter":
		press["text"], press["windowsVirtualKeyCode"] = "\r", 13
	case key == "Tab":
		press["windowsVirtualKeyCode"] = 9
	}
	p.Do("Input.dispatchKeyEvent", press, nil)
	p.Do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Yes answers the questions of a page, such as whether to cancel, with yes.
func (p *Page) Yes() {
	asked := make(chan message, 8)
	p.b.mu.Lock()
	key := p.session + "Page.javascriptDialogOpening"
	p.b.events[key] = append(p.b.events[key], asked)
	p.b.mu.Unlock()
	go func() {
		for {
			select {
			case <-asked:
				_ = p.b.call(p.session, "Page.handleJavaScriptDialog", map[string]any{"accept": true}, nil)
			case <-p.b.done:
				return
			}
		}
	}()
}

// Shot writes a picture of the page, as much of it as is seen, to a file.
func (p *Page) Shot(path string, whole bool) {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	p.Do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	p.b.must(err)
}

// Before runs a script before those of each page that is opened from now on.
func (p *Page) Before(script string) {
	p.t.Helper()
	p.Do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}

// FirstPaint is how long the page took until it showed something.
func (p *Page) FirstPaint() time.Duration {
	p.t.Helper()
	var ms float64
	p.Until(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	p.b.must(p.Eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &ms))
	return time.Duration(ms * float64(time.Millisecond))
}

// Lines are the lines of a text that are not empty.
func Lines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Value is Eval of an expression that must have a value.
func (p *Page) Value(expression string, to any) {
	p.t.Helper()
	p.b.must(p.Eval(expression, to))
}

// URL is the address of the page.
func (p *Page) URL() string {
	p.t.Helper()
	var address string
	p.Value("location.href", &address)
	return address
}

// Links are the addresses of the links that a CSS selector selects.
func (p *Page) Links(selector string) (list []string) {
	p.t.Helper()
	quoted, _ := json.Marshal(selector) // a string never fails
	p.Value("[...document.querySelectorAll("+string(quoted)+")].map(a => a.href)", &list)
	return list
}
