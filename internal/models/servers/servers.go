// Package servers names the model servers that a person can choose: those that everybody knows, and how a setting
// describes another one.
package servers

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
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

// Server is a model server as a person names it.
type Server struct {
	Name string // what stands before the colon in the name of a model, such as lab
	Kind string // Ollama, OpenAI, Anthropic or Gemini
	URL  string // the address to which paths such as /chat/completions are added; of Ollama as in OLLAMA_HOST
	// Context is the size of the context of its models, in tokens, where the server does not say it; 0 means not known.
	Context int
	// Vision says that its models see images, where the server does not say it.
	Vision bool
	// KeyName is the environment variable with the key, KeyCommand a command that prints it. Both may be empty.
	KeyName, KeyCommand string
}

// BuiltIn returns the servers that everybody can name. ollama has no URL: the setting OLLAMA_HOST says it.
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
		{Name: "mistral", Kind: OpenAI, URL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY"},
		{Name: "llamacpp", Kind: OpenAI, URL: "http://127.0.0.1:8080/v1"},
		{Name: "vllm", Kind: OpenAI, URL: "http://127.0.0.1:8000/v1"},
		{Name: "lmstudio", Kind: OpenAI, URL: "http://127.0.0.1:1234/v1"},
	}
}

// kinds are those that a person can write.
var kinds = []string{Ollama, OpenAI, Anthropic, Gemini}

// Parse reads the description of the server of that name: a kind, an address, and options. A key command is the last
// option, and takes the rest.
func Parse(name, description string) (Server, error) {
	s := Server{Name: name}
	description, s.KeyCommand, _ = strings.Cut(description, "key_cmd=")
	words := strings.Fields(description)
	if len(words) < 2 || !slices.Contains(kinds, words[0]) {
		return s, fmt.Errorf("it does not begin with a kind (%s) and an address", strings.Join(kinds, ", "))
	}
	s.Kind, s.URL, s.KeyCommand = words[0], words[1], strings.TrimSpace(s.KeyCommand)
	for _, word := range words[2:] {
		option, value, _ := strings.Cut(word, "=")
		switch option {
		case "key":
			s.KeyName = value
			if strings.Trim(value, letters) != "" || value == "" {
				return s, errors.New("key= takes the name of an environment variable, not the key")
			}
		case "context":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1<<30 {
				return s, errors.New("context= takes a number of tokens")
			}
			s.Context = n
		case "vision":
			if word != option {
				return s, errors.New("vision takes no value")
			}
			s.Vision = true
		default:
			return s, fmt.Errorf("%q is no option: there are key=, context=, vision and key_cmd=", option)
		}
	}
	if s.Kind == Ollama {
		return s, nil // the client checks it
	}
	_, err := s.Address()
	return s, err
}

// letters are those of the name of an environment variable.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// Address parses the URL of a server that is not Ollama.
func (s Server) Address() (*url.URL, error) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("the address of the server is no URL with http or https")
	case u.User != nil, u.RawQuery != "": // not shown: it may be a key
		return nil, errors.New("the address carries a user name or a query: a key is given by key=VARIABLE")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// Setting returns the name of the setting with the address of s.
func (s Server) Setting() string {
	if s.Name == "ollama" {
		return "OLLAMA_HOST"
	}
	return "QQ_SERVER_" + s.Name
}
