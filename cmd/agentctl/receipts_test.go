package main

import (
	"testing"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// TestReceipts: a stream that ends before a message has come as far as was asked for, at each recipient, was cut.
func TestReceipts(t *testing.T) {
	const (
		accepted      = agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED
		waking        = agentdv1.ReceiptState_RECEIPT_STATE_WAKING
		delivered     = agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED
		answered      = agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED
		undeliverable = agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE
		expired       = agentdv1.ReceiptState_RECEIPT_STATE_EXPIRED
		superseded    = agentdv1.ReceiptState_RECEIPT_STATE_SUPERSEDED
	)
	type told struct {
		who   string
		state agentdv1.ReceiptState
	}
	for _, test := range []struct {
		name             string
		until            agentdv1.ReceiptState
		told             []told
		fresh            int
		complete, failed bool
	}{
		{"nothing came", accepted, nil, 0, false, false},
		{"accepted", accepted, []told{{"lisa", accepted}}, 1, true, false},
		{"on the way", delivered, []told{{"lisa", accepted}, {"lisa", waking}}, 2, false, false},
		{"told again after a break", delivered, []told{{"lisa", accepted}, {"lisa", waking}, {"lisa", accepted}, {"lisa", delivered}}, 3, true, false},
		{"delivered is no answer", answered, []told{{"lisa", delivered}}, 1, false, false},
		{"acknowledged is the end", answered, []told{{"user", accepted}, {"user", delivered}}, 2, true, false},
		{"answered", answered, []told{{"lisa", delivered}, {"lisa", answered}}, 2, true, false},
		{"one of two", delivered, []told{{"lisa", delivered}, {"max", accepted}}, 2, false, false},
		{"lost at one", answered, []told{{"lisa", answered}, {"max", undeliverable}}, 2, true, true},
		{"expired", answered, []told{{"lisa", accepted}, {"lisa", expired}}, 2, true, true},
		{"superseded", delivered, []told{{"lisa", superseded}}, 1, true, true},
		{"to all", delivered, []told{{everyone, accepted}, {"lisa", delivered}}, 2, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := receipts{req: &agentdv1.SendMessageRequest{Until: test.until}, newest: map[string]*agentdv1.SendMessageResponse{}}
			fresh := 0
			for _, r := range test.told {
				seq := uint64(12)
				if r.who == "user" {
					seq = 0
				}
				if seen.isNew(&agentdv1.SendMessageResponse{MessageId: "m-1", Recipient: r.who, State: r.state, Seq: seq}) {
					fresh++
				}
			}
			if fresh != test.fresh || seen.complete() != test.complete || seen.failed() != test.failed {
				t.Errorf("%d new, complete %v, failed %v", fresh, seen.complete(), seen.failed())
			}
		})
	}
}
