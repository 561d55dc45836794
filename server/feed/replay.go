package feed

import (
	"context"

	"github.com/setpoint-dev/setpoint/store"
)

// replay has the decisions between a watcher's start and the hub's position at that
// time.
type replay struct {
	watcher      *Watcher
	after, until []store.FeedPosition
	read         [][]*item // for each part, the items not taken yet
	ended        []bool    // whether a part is finished
	asked        bool      // whether pages are being read
	answer       chan replayed
}

// replayed is the next page of some parts.
type replayed struct {
	reads []store.FeedRead
	pages []store.FeedPage
	err   error
}

func newReplay(w *Watcher, after, until []store.FeedPosition) *replay {
	return &replay{
		watcher: w, after: after, until: until, read: make([][]*item, len(after)), ended: make([]bool, len(after)), answer: make(chan replayed, 1),
	}
}

// next returns the next item, nil after the last, or while pages are being read: more is true
// then, and Ready signals their arrival.
func (r *replay) next(ctx context.Context) (it *item, more bool, err error) {
	for {
		first, wanting := -1, false
		for part := range r.read {
			switch {
			case len(r.read[part]) == 0:
				wanting = wanting || !r.ended[part]
			case first < 0 || r.read[part][0].position.Millis < r.read[first][0].position.Millis:
				first = part
			}
		}
		if !wanting {
			if first < 0 {
				return nil, false, nil
			}
			it := r.read[first][0]
			r.read[first] = r.read[first][1:]
			return it, true, nil
		}
		if !r.asked {
			r.ask(ctx)
			return nil, true, nil
		}
		select {
		case got := <-r.answer:
			r.asked = false
			if got.err != nil {
				return nil, false, got.err
			}
			for i, read := range got.reads {
				r.take(read.Part, got.pages[i])
			}
		default:
			return nil, true, nil
		}
	}
}

// ask requests the next page of each part that has nothing left, which is read when it is the
// caller's turn.
func (r *replay) ask(ctx context.Context) {
	r.asked = true
	h := r.watcher.hub
	reads := readsOf(r.after, func(part int) bool { return r.ended[part] || len(r.read[part]) > 0 })
	h.turns.ask(r.watcher.viewer.Caller, func() {
		if ctx.Err() != nil {
			return // the watcher has gone while it waited for its turn
		}
		asked, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		defer context.AfterFunc(h.life, cancel)()
		pages, err := h.source.ReadFeed(asked, reads, readAtOnce)
		r.answer <- replayed{reads, pages, err}
		r.watcher.wake()
	})
}

func (r *replay) take(part int, page store.FeedPage) {
	if r.after[part].Number > 0 && page.Newest.Before(r.after[part]) {
		// The store has lost its newest entries since, see Hub.take.
		r.ended[part], r.watcher.skip[part] = true, store.FeedPosition{}
		r.watcher.position[part] = page.Newest
		r.watcher.lost(0, true)
		return
	}
	for _, read := range page.Items {
		if r.until[part].Before(read.Position) {
			r.end(part, &read)
			return
		}
		lost, unknown := gap(r.after[part], &read)
		r.watcher.lost(lost, unknown)
		r.after[part] = read.Position
		if it := newItem(part, read); it != nil {
			r.read[part] = append(r.read[part], it)
		} else {
			r.watcher.lost(0, true)
		}
	}
	r.ended[part] = len(page.Items) == 0 || r.after[part] == page.Newest || !r.after[part].Before(r.until[part])
}

// end finishes a part at the hub's position. The hub's next entry then shows how many are
// missing in between.
func (r *replay) end(part int, next *store.FeedItem) {
	r.ended[part] = true
	if after, until := r.after[part], r.until[part]; after.Before(until) {
		lost, unknown := gap(after, next)
		switch {
		case next.Position.Number <= until.Number: // numbers that were already used
			lost, unknown = 0, unknown || lost > 0
		case lost > 0:
			lost = until.Number - after.Number
		}
		r.watcher.lost(lost, unknown)
	}
}
