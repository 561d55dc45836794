package decisionlog

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// TestAChunkTakesAsManyPlacesAsItIsLong floods a log of few places with chunks that can't be compressed.
func TestAChunkTakesAsManyPlacesAsItIsLong(t *testing.T) {
	const places, place = 12, 100
	engine := memory.New(memory.Options{})
	chunks := engine.Chunks(places, 0)
	l := New(chunks, nil, zap.NewNop(), 0)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	r := rand.New(rand.NewPCG(1, 2))
	var last []byte
	for i := range 200 {
		last = make([]byte, 1+r.IntN(5*place))
		for k := range last {
			last[k] = byte(r.Uint32())
		}
		l.Append(key, OfChunk(&Chunk{Last: int64(i), Bytes: last, Place: place}))
		fatal.If(t, l.Flush(context.Background(), key))
		values, next, err := chunks.ReadLog(context.Background(), key, "", 1000)
		if err != nil || next != "" {
			t.Fatal(err, next)
		}
		size := 0
		var newest []byte
		for _, value := range values {
			if size += len(value); newest == nil && len(value) > 0 {
				newest = value
			}
		}
		if at, sealed := ReadChunk(newest); at != int64(i) || !bytes.Contains(sealed, last) {
			t.Fatalf("the newest is of %d", at)
		}
		if most := places * place; len(values) > places || size > most {
			t.Fatalf("%d entries of %d bytes, more than %d of %d", len(values), size, places, most)
		}
	}
	l.Close()
	for _, value := range [][]byte{nil, {1}, make([]byte, chunkHeader)} {
		if _, sealed := ReadChunk(value); sealed != nil {
			t.Errorf("%v is a chunk", value)
		}
	}
}
