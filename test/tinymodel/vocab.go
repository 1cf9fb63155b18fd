package tinymodel

import "strings"

// Types of tokens in GGUF.
const (
	typeNormal  = 1
	typeControl = 3
)

// vocab is the list of tokens; a token is its index.
type vocab struct {
	text []string
	typ  []int32
	id   map[string]int
}

// newVocab returns a vocabulary with a token for each byte; its id is the byte.
func newVocab() *vocab {
	v := &vocab{id: map[string]int{}}
	for b := range 256 {
		v.add(string(byteRune(byte(b))), typeNormal)
	}
	v.add("th", typeNormal) // the one merge: llama.cpp wants the list to exist
	return v
}

// add returns the token for text, and adds it if it is new.
func (v *vocab) add(text string, typ int32) int {
	if id, ok := v.id[text]; ok {
		return id
	}
	id := len(v.text)
	v.text = append(v.text, text)
	v.typ = append(v.typ, typ)
	v.id[text] = id
	return id
}

// nul stands for the byte 0. Ollama drops it when it turns tokens into text
// (its own engine skips the rune, the llama.cpp engine trims the byte), so
// tokens that read alike can still be different tokens: "the", "the\0", ….
const nul = "\u0100"

// addPrivate adds a token that reads as chunk but differs from every other token.
func (v *vocab) addPrivate(chunk string) int {
	text := byteLevel(chunk)
	for {
		if _, ok := v.id[text]; !ok {
			return v.add(text, typeNormal)
		}
		text += nul
	}
}

// byteRune returns the printable character by which GPT-2 vocabularies write a byte.
func byteRune(b byte) rune {
	switch r := rune(b); {
	case r == 0xad:
		return 0x143
	case r <= 0x20:
		return r + 0x100
	case r >= 0x7f && r <= 0xa0:
		return r + 0xa2
	default:
		return r
	}
}

func byteLevel(s string) string {
	var sb strings.Builder
	for _, b := range []byte(s) {
		sb.WriteRune(byteRune(b))
	}
	return sb.String()
}
