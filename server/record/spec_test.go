package record

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// Earlier versions stored the text of a spec elsewhere, and said in the record when: that is skipped.
func TestARecordOfAnEarlierVersionHasNoText(t *testing.T) {
	r := Record{}
	r.Updated = time.UnixMilli(1_800_000_000_000).UTC()
	r.Seen, r.Spec = true, SpecUse{Hash: 7, Since: r.Updated.UnixMilli() - 5}
	body := withoutChecksum(&r)
	known := []byte{3, 10, 0, 0, 0, 0, 0, 0, 0, 7, 1} // the tag, the length, the hash, and that Since is known
	at := bytes.Index(body, known)
	if at < 0 {
		t.Fatalf("no spec in %x", body)
	}
	at += len(known)
	earlier := bytes.Clone(body[:at-1])
	earlier = append(append(earlier, 3), body[at:]...) // and when its text was stored
	earlier = binary.AppendVarint(earlier, 1000)
	earlier[at-len(known)+1] += 2
	got := decode(t, withChecksum(earlier))
	equal(t, "the record", got, r)
}
