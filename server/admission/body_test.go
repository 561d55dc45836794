package admission

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// Calls of many callers at once each get their own body, though the memory goes from one to the
// next.
func TestBodiesThatShareMemoryAreTheirOwn(t *testing.T) {
	t.Parallel()
	g := &Guard{Unfinished: unfinished.New(unfinished.Options{Bytes: 64 << 20, Answers: 64 << 20, Streams: 64})}
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(caller)))
			for call := range 500 {
				sent := bytes.Repeat(fmt.Appendf(nil, "%d of %d;", call, caller), 1+r.IntN(1000))
				req := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(bytes.NewReader(sent)))
				if req.ContentLength = int64(len(sent)); r.IntN(4) == 0 {
					req.ContentLength = -1
				}
				got, err := g.ReadBody(httptest.NewRecorder(), req, 1<<20)
				if err != nil || !bytes.Equal(got, sent) {
					t.Errorf("call %d of caller %d: %v, %d bytes instead of %d, or others", call, caller, err, len(got), len(sent))
					return
				}
				FreeBody(got)
			}
		})
	}
	callers.Wait()
}

// A call holds no more memory for a body that has not arrived than without the pool.
func TestFirstBuffers(t *testing.T) {
	t.Parallel()
	for announced, want := range map[int64]int{-1: 512, 0: 512, 511: 512, 1000: 1001, 1024: firstBody, firstBody - 1: firstBody, 16 << 20: firstBody} {
		if got := newBody(announced); len(got) != 0 || cap(got) != want {
			t.Errorf("%d bytes announced: a buffer of %d, %d of them used; want %d", announced, cap(got), len(got), want)
		}
	}
}
