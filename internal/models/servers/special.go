package servers

import (
	"slices"
	"strings"
)

// IsSpecial reports whether a model is probably not for chats, by its name. It is a guess, for servers that do not say
// what their models can do.
func IsSpecial(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(word string) bool {
		switch word {
		case "audio", "realtime", "image", "tts", "transcribe", "whisper", "dall", "sora", "embed", "embedding",
			"embeddings", "moderation", "ocr", "babbage", "davinci", "rerank", "reranker", "guard":
			return true
		}
		return false
	})
}
