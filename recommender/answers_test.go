package recommender

import (
	"strings"
	"testing"
	"time"
)

func TestAnswersAreBoundedInBytes(t *testing.T) {
	var h History
	limits := AnswerLimits{Retention: time.Hour, Count: 10, Bytes: 1000}
	answer := func(id string, explanation, text int) Answer {
		return Answer{RequestID: id, At: 1, Reason: strings.Repeat("r", text), Explanation: make([]byte, explanation)}
	}
	h = h.WithAnswer(answer("a", 600, 0), limits)
	before := h
	h = h.WithAnswer(answer("b", 600, 0), limits)
	equal(t, "both are remembered", len(h.Answers), 2)
	equal(t, "the older one's explanation", len(h.AnswerFor("a").Explanation), 0)
	equal(t, "the newer one's", len(h.AnswerFor("b").Explanation), 600)
	equal(t, "the history before", len(before.Answers[0].Explanation), 600)
	h = h.WithAnswer(answer("c", 0, 900), limits)
	equal(t, "what is left", len(h.Answers), 1)
	h = h.WithAnswer(answer("d", 0, 9000), limits)
	equal(t, "the newest stays in any case", h.Answers[0].RequestID, "d")
	h = h.WithinLimits(2+int64(time.Hour), limits)
	equal(t, "in the end", h.Answers, []Answer(nil))
}
