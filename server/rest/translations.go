package rest

import (
	"context"
	"net/http"
	"runtime"
	"sync"

	grpcruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/waits"
)

// translations limits the REST calls that the gateway transcodes at once, because their messages
// take several times the memory of their bytes.
type translations struct {
	// small and large are semaphores.
	small, large chan struct{}
}

const (
	// smallBody is the size of the largest small body, in bytes.
	smallBody = 4 << 10
	// smallTranslations and, per processor, largeTranslations are the limits.
	smallTranslations, largeTranslations = 256, 4
)

func newTranslations() translations {
	return translations{
		small: make(chan struct{}, smallTranslations),
		large: make(chan struct{}, largeTranslations*runtime.GOMAXPROCS(0)),
	}
}

// serve waits for a place among those of large or small messages, and has the call served.
func (t *translations) serve(mux *grpcruntime.ServeMux, next http.Handler, w http.ResponseWriter, r *http.Request, large bool) {
	places := t.small
	if large {
		places = t.large
	}
	select {
	case places <- struct{}{}: // also for a call that has been given up: a client that has half-closed the connection still reads
	default:
		if err := waits.For(r.Context(), waits.Translation, func() error { return takePlace(r.Context(), places) }); err != nil {
			admission.AnswerStatus(mux, w, r, status.FromContextError(err))
			return
		}
	}
	place := &translation{places: places, held: true}
	defer place.leave()
	next.ServeHTTP(&translated{w, place}, r.WithContext(waits.WithPlace(r.Context(), place)))
}

func takePlace(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// translation is a call's place. It implements waits.Place.
type translation struct {
	places chan struct{}

	mu sync.Mutex
	// held reports that the call has it, and left that it needs none any more. Guarded by mu.
	held, left bool
}

// GiveBack implements waits.Place.
func (t *translation) GiveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveBackLocked()
}

func (t *translation) giveBackLocked() {
	if t.held {
		t.held = false
		<-t.places
	}
}

// TakeAgain implements waits.Place.
func (t *translation) TakeAgain(ctx context.Context) {
	t.mu.Lock()
	needed := !t.held && !t.left
	t.mu.Unlock()
	if !needed || takePlace(ctx, t.places) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held = true; t.left { // the response began meanwhile
		t.giveBackLocked()
	}
}

// leave gives the place back for good.
func (t *translation) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	t.giveBackLocked()
}

// translated writes a response. The response is complete at its first byte, which releases the
// place, however slowly the caller reads.
type translated struct {
	http.ResponseWriter
	place *translation
}

// Write implements http.ResponseWriter.
func (t *translated) Write(b []byte) (int, error) {
	t.place.leave()
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *translated) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush implements http.Flusher, which the gateway asks for.
func (t *translated) Flush() { _ = http.NewResponseController(t.ResponseWriter).Flush() }
