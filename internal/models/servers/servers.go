// Package servers names the model servers that a person can choose: those that everybody knows, and how a setting
// describes another one.
package servers

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Kinds of servers, by what they speak.
const (
	Ollama    = "ollama"
	OpenAI    = "openai"    // chat completions
	Anthropic = "anthropic" // messages
	Gemini    = "gemini"
)

// Kinds returns the kinds that a person can write.
func Kinds() []string { return []string{Ollama, OpenAI, Anthropic, Gemini} }

// Server is a model server as a person names it.
type Server struct {
	Name string // what stands before the colon in the name of a model, such as lab
	Kind string // Ollama, OpenAI, Anthropic or Gemini
	URL  string // the address to which paths such as /chat/completions are added; of Ollama as in OLLAMA_HOST
	// Context is the size of the context of its models, in tokens, where the server does not say it; 0 means not known.
	Context int
	Own     bool // a setting of the user names it
	// Vision says that its models see images, where the server does not say it.
	Vision bool
	// NoTools says that requests with tools are refused there: agents work without them.
	NoTools bool
	// KeyName is the environment variable with the key, KeyCommand a command that prints it. At most one is set.
	KeyName, KeyCommand string
	Plain               bool // the key may go to a host of the internet without encryption
}

// BuiltIn returns the servers that everybody can name. ollama has no URL: the setting OLLAMA_HOST says it. No name is
// that of a model of Ollama's, such as mistral in mistral:7b.
func BuiltIn() []Server {
	return []Server{
		{Name: "ollama", Kind: Ollama},
		{Name: "openai", Kind: OpenAI, URL: "https://api.openai.com/v1", KeyName: "OPENAI_API_KEY"},
		{Name: "anthropic", Kind: Anthropic, URL: "https://api.anthropic.com/v1", KeyName: "ANTHROPIC_API_KEY"},
		{Name: "gemini", Kind: Gemini, URL: "https://generativelanguage.googleapis.com/v1beta",
			KeyName: "GEMINI_API_KEY"},
		{Name: "openrouter", Kind: OpenAI, URL: "https://openrouter.ai/api/v1", KeyName: "OPENROUTER_API_KEY"},
		{Name: "groq", Kind: OpenAI, URL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY"},
		{Name: "deepseek", Kind: OpenAI, URL: "https://api.deepseek.com/v1", KeyName: "DEEPSEEK_API_KEY"},
		{Name: "mistralai", Kind: OpenAI, URL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY"},
		{Name: "llamacpp", Kind: OpenAI, URL: "http://127.0.0.1:8080/v1"},
		{Name: "vllm", Kind: OpenAI, URL: "http://127.0.0.1:8000/v1"},
		{Name: "lmstudio", Kind: OpenAI, URL: "http://127.0.0.1:1234/v1"},
	}
}

// String returns the description of s, as [Parse] reads it, but without its key command.
func (s Server) String() string {
	text := s.Kind + " " + s.URL
	if s.KeyName != "" {
		text += " key=" + s.KeyName
	}
	if s.Context != 0 {
		text += " context=" + strconv.Itoa(s.Context)
	}
	if s.Vision {
		text += " vision"
	}
	if s.NoTools {
		text += " no-tools"
	}
	if s.Plain {
		text += " plain"
	}
	if s.KeyCommand != "" {
		text += " key_cmd=…"
	}
	return text
}

// Address parses the URL of s.
func (s Server) Address() (*url.URL, error) {
	if s.Kind == Ollama {
		return parseHost(s.URL)
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", !isPort(u.Port()):
		return nil, errors.New("the address is no URL with http:// or https://")
	case u.User != nil, u.RawQuery != "", u.Fragment != "": // not shown: it may be a key
		return nil, errors.New("the address carries a user name, a password or a query")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// isPort reports whether s is a number that a port can have, or empty.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
}

// IsHere reports whether the address of s is one of this machine.
func (s Server) IsHere() bool {
	address := s.URL
	if !strings.Contains(address, "://") { // of Ollama, where the scheme and the host may be missing
		address = "http://" + strings.TrimSpace(address)
	}
	u, err := url.Parse(address)
	return err == nil && IsHere(u)
}

// IsHere reports whether u is an address of this machine.
func IsHere(u *url.URL) bool {
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || host == "" || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// UsualPath returns how the addresses of servers of this kind end as a rule; it may be empty.
func (s Server) UsualPath() string {
	switch s.Kind {
	case OpenAI, Anthropic:
		return "/v1"
	case Gemini:
		return "/v1beta"
	}
	return ""
}

// Setting returns the name of the setting with the address of s.
func (s Server) Setting() string {
	if s.Name == Ollama {
		return "OLLAMA_HOST"
	}
	return "QQ_SERVER_" + s.Name
}

// overheard reports whether what is sent to u can be read on its way: it goes to the internet, and is not encrypted.
// A host without a dot, or with an ending that no name of the internet has, is in the network of the user.
func overheard(u *url.URL) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if u.Scheme == "https" {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		// Addresses inside of networks of providers, which private networks such as that of Tailscale use.
		carrier := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
		return !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !carrier.Contains(addr)
	}
	dot := strings.LastIndexByte(host, '.')
	switch host[dot+1:] {
	case "local", "localhost", "lan", "internal", "localdomain", "test":
		return false
	}
	return dot >= 0 && !strings.HasSuffix(host, ".home.arpa")
}
