package task

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStored: whatever a result has comes back, also what a later field will say.
func TestStored(t *testing.T) {
	var r Result
	fill(t, reflect.ValueOf(&r).Elem())
	r.Output = "bytes \xff\x00 that are no text"
	b, err := json.Marshal(Store(r))
	require.NoError(t, err)
	var back Stored
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, r, back.Restored(r.Output))

	for _, reads := range [][]Read{nil, {}} {
		b, err := json.Marshal(Store(Result{Reads: reads}))
		require.NoError(t, err)
		var back Stored
		require.NoError(t, json.Unmarshal(b, &back))
		assert.Equal(t, Result{Reads: reads}, back.Restored(""), "not known is not none")
	}
}

// fill gives every field of v a value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	default:
		t.Fatalf("no value of kind %s: give it one", v.Kind())
	}
}
