package feed

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// replayedAtOnce is how many entries of a part a watcher takes at once of what was before it.
const replayedAtOnce = 100

// replay is what lies between where a watcher begins and where the hub was then.
type replay struct {
	watcher      *Watcher
	after, until []store.FeedPosition
	read         [][]*item // of each part, what is still to be taken
	ended        []bool    // whether a part has no more
	asked        bool      // whether pages are to come
	answer       chan replayed
}

// replayed is the next page of each part.
type replayed struct {
	pages []store.FeedPage
	err   error
}

func newReplay(w *Watcher, after, until []store.FeedPosition) *replay {
	return &replay{
		watcher: w, after: after, until: until, read: make([][]*item, len(after)), ended: make([]bool, len(after)), answer: make(chan replayed, 1),
	}
}

// next returns the next item, nil after the last, or while pages are to come: more is true then,
// and Ready is told when they are there.
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
			r.fill(got.pages)
		default:
			return nil, true, nil
		}
	}
}

// ask has the next page of each part read when it is the caller's turn.
func (r *replay) ask(ctx context.Context) {
	r.asked = true
	h, after := r.watcher.hub, slices.Clone(r.after)
	h.turns.ask(r.watcher.viewer.Caller, func() {
		asked, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		defer context.AfterFunc(h.life, cancel)()
		pages, err := h.source.ReadFeed(asked, after, replayedAtOnce)
		r.answer <- replayed{pages, err}
		r.watcher.wake()
	})
}

// fill takes the pages of parts of which nothing is left.
func (r *replay) fill(pages []store.FeedPage) {
	for part, page := range pages {
		if !r.ended[part] && len(r.read[part]) == 0 {
			r.take(part, page)
		}
	}
}

// take takes the page of a part.
func (r *replay) take(part int, page store.FeedPage) {
	if r.after[part].Number > 0 && page.Newest.Before(r.after[part]) {
		// The store has lost its end since, see Hub.take.
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
		}
	}
	r.ended[part] = len(page.Items) == 0 || !r.after[part].Before(r.until[part])
}

// end takes note that nothing is left of a part up to where the hub was. The entry after that is
// the hub's, which tells what is missing between there and it.
func (r *replay) end(part int, next *store.FeedItem) {
	r.ended[part] = true
	if after, until := r.after[part], r.until[part]; after.Before(until) {
		lost, unknown := gap(after, next)
		switch {
		case next.Position.Number <= until.Number: // numbers that were given before
			lost, unknown = 0, unknown || lost > 0
		case lost > 0:
			lost = until.Number - after.Number
		}
		r.watcher.lost(lost, unknown)
	}
}
