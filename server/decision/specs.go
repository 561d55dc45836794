package decision

import (
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
)

// maxSpecText limits the text of a spec in a record, in bytes: each decision writes it. A longer one is not kept.
const maxSpecText = 8 << 10

// specAfter returns which spec is in use after the decision. Its text is written once for all decisions with it.
func (j *Job) specAfter(known *record.Record) record.SpecUse {
	use := known.Spec
	if use.Hash != j.SpecHash {
		use = record.SpecUse{Hash: j.SpecHash}
		if known.Spec.Hash != 0 || !known.Seen {
			use.Since = j.Decision.At.UnixMilli()
		}
	}
	if use.Text != "" || use.TooLong || use.Hash == 0 || j.Spec == nil || j.DryRun {
		return use
	}
	spec := j.Spec.SpecInUse()
	spec.Hash = "" // the record has it
	text, err := proto.Marshal(spec)
	if use.TooLong = err != nil || len(text) > maxSpecText; !use.TooLong {
		use.Text = string(text)
	}
	return use
}

// SpecInUse returns the spec in use of a record, nil if it is not kept.
func SpecInUse(of *record.Record) *setpointv1.SpecInUse {
	spec := &setpointv1.SpecInUse{}
	if of == nil || of.Spec.Text == "" || proto.Unmarshal([]byte(of.Spec.Text), spec) != nil {
		return nil
	}
	spec.Hash, spec.SinceTime = conversion.SpecHash(of.Spec.Hash), conversion.Milliseconds(of.Spec.Since)
	return spec
}
