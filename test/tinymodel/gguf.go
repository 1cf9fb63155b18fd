package tinymodel

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Types of values in GGUF.
const (
	ggufUint32  uint32 = 4
	ggufInt32   uint32 = 5
	ggufFloat32 uint32 = 6
	ggufBool    uint32 = 7
	ggufString  uint32 = 8
	ggufArray   uint32 = 9
)

const (
	ggufVersion uint32 = 3
	tensorF32   uint32 = 0
	alignment          = 32
)

// kv is one key and value of the metadata.
type kv struct {
	key string
	val any
}

// tensor is a vector or a matrix of float32. dims are in GGUF order: the
// innermost (contiguous) dimension first, so a matrix that maps n inputs to m
// outputs has dims{n, m} and its row r is data[r*n : (r+1)*n].
type tensor struct {
	name string
	dims []uint64
	data []float32
}

// padding returns how many bytes align n.
func padding(n uint64) uint64 { return (alignment - n%alignment) % alignment }

// ggufWriter writes a GGUF file. It keeps the first error, so that callers check for errors only
// once.
type ggufWriter struct {
	w   *bufio.Writer
	n   uint64
	err error
}

func (w *ggufWriter) put(vs ...any) {
	for _, v := range vs {
		if w.err != nil {
			return
		}
		w.err = binary.Write(w.w, binary.LittleEndian, v)
		w.n += uint64(binary.Size(v))
	}
}

func (w *ggufWriter) str(s string) { w.put(uint64(len(s)), []byte(s)) }

func (w *ggufWriter) align() { w.put(make([]byte, padding(w.n))) }

func (w *ggufWriter) value(v any) {
	switch v := v.(type) {
	case uint32:
		w.put(ggufUint32, v)
	case float32:
		w.put(ggufFloat32, v)
	case bool:
		w.put(ggufBool, v)
	case string:
		w.put(ggufString)
		w.str(v)
	case []string:
		w.put(ggufArray, ggufString, uint64(len(v)))
		for _, s := range v {
			w.str(s)
		}
	case []int32:
		w.put(ggufArray, ggufInt32, uint64(len(v)), v)
	case []float32:
		w.put(ggufArray, ggufFloat32, uint64(len(v)), v)
	default:
		w.err = fmt.Errorf("gguf: no encoding for %T", v)
	}
}

// info writes the description of t, whose data begins at offset, and returns the offset of the
// next tensor.
func (w *ggufWriter) info(t tensor, offset uint64) uint64 {
	n := uint64(1)
	for _, d := range t.dims {
		n *= d
	}
	if n != uint64(len(t.data)) && w.err == nil {
		w.err = fmt.Errorf("gguf: tensor %s: %d values for dims %v", t.name, len(t.data), t.dims)
	}
	w.str(t.name)
	w.put(uint32(len(t.dims)), t.dims, tensorF32, offset)
	offset += 4 * n
	return offset + padding(offset)
}

func (w *ggufWriter) data(t tensor) {
	buf := make([]byte, 4*len(t.data))
	for i, f := range t.data {
		binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(f))
	}
	w.put(buf)
	w.align()
}

func writeGGUF(out io.Writer, kvs []kv, ts []tensor) error {
	w := &ggufWriter{w: bufio.NewWriterSize(out, 1<<20)}
	w.put([]byte("GGUF"), ggufVersion, uint64(len(ts)), uint64(len(kvs)))
	for _, e := range kvs {
		w.str(e.key)
		w.value(e.val)
	}
	var offset uint64
	for _, t := range ts {
		offset = w.info(t, offset)
	}
	w.align()
	for _, t := range ts {
		w.data(t)
	}
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}
