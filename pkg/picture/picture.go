// Package picture describes images that a model is shown: what counts as one, and how large it may be.
//
// An [Image] carries its bytes only in the process that has read them. Its JSON is a reference: a name, a type, a size
// and a checksum. Whoever has the reference can read the file again and see whether it is still the same.
//
// Not promised: that a decoder takes the image. What it is follows from its first bytes, and the model server
// decodes it. The decoders of the standard library would cost every start of qq some KiB.
package picture

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"
)

// MaxBytes is how large an image may be. Anthropic takes 5 MB of most models, others more.
const MaxBytes = 8 << 20

// MaxCount is how many images a message may have.
const MaxCount = 20

// HeadBytes is how many bytes [Type] looks at.
const HeadBytes = 512

// Image is an image in a conversation.
type Image struct {
	Name  string `json:"name"`             // the path of its file, or "stdin"
	Type  string `json:"type,omitempty"`   // such as image/png
	Bytes int    `json:"bytes,omitempty"`  // of Data
	Sum   string `json:"sha256,omitempty"` // of Data, in hex
	Data  []byte `json:"-"`                // nil if it was not read yet
}

// String describes i on one line.
func (i Image) String() string { return fmt.Sprintf("%s (%s, %d bytes)", i.Name, i.Type, i.Bytes) }

// Type returns the type of the image that begins with head, or "" if that is no image that models know. A text is
// none, even if it begins with GIF89a.
func Type(head []byte) string {
	head = head[:min(len(head), HeadBytes)]
	switch t := http.DetectContentType(head); t {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
			return t
		}
	}
	return ""
}

// Advice says what an image can be, as a hint below an error of [Read].
const Advice = "an image is a PNG, JPEG, GIF or WebP file of at most 8 MiB"

// Read reads an image to its end. name is for the Image and for errors.
func Read(from io.Reader, name string) (Image, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxBytes+1))
	if err != nil {
		return Image{}, fmt.Errorf("read %s: %w", name, err)
	}
	kind := Type(data)
	switch {
	case len(data) == 0:
		return Image{}, fmt.Errorf("%s is empty, and no image", name)
	case kind == "":
		return Image{}, fmt.Errorf("%s is no image that models know", name)
	case len(data) > MaxBytes:
		return Image{}, fmt.Errorf("%s has more than %d MiB", name, MaxBytes>>20)
	}
	sum := sha256.Sum256(data)
	return Image{Name: name, Type: kind, Bytes: len(data), Sum: hex.EncodeToString(sum[:]), Data: data}, nil
}
