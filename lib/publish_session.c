// SPDX-License-Identifier: MIT
/* What a session publishes (publish.h), and when: at open, after each decode step, after each prefill. */
#include <stdio.h>
#include <string.h>

#include "session.h"

static void set_head(const struct kvs *s, struct kvs_page_head *h)
{
	struct kvs_info info = { .size = sizeof(info) };

	kvs_info_get(s, &info);
	*h = (struct kvs_page_head){
		.direct_io = info.direct_io,
		.budget_bytes = s->cfg.budget,
		.full_bytes = s->geo.n_seqs * kvs_full_bytes(&s->shape, s->geo.n_ctx),
		.metadata_bytes = s->plan.metadata_bytes,
		.slot_bytes = s->plan.slot_bytes,
		.rolling_bytes = s->plan.rolling_bytes,
		.staging_bytes = s->plan.staging_bytes,
		.store_bytes = s->plan.store_bytes,
		.n_layers = s->geo.n_layers,
		.n_heads = s->geo.rec.n_heads,
		.n_kv_heads = s->geo.rec.n_kv_heads,
		.head_dim = s->geo.rec.head_dim,
		.n_ctx = s->geo.n_ctx,
		.n_seqs = s->geo.n_seqs,
		.group = s->plan.group,
		.select = s->plan.select,
		.rank = s->plan.rank,
		.reuse = s->plan.reuse,
		.record_bytes = s->plan.record_bytes,
		.where = s->cfg.where,
	};
	snprintf(h->backend, sizeof(h->backend), "%s", info.backend);
	snprintf(h->predictor, sizeof(h->predictor), "%s", s->plan.predictor);
	snprintf(h->kernels, sizeof(h->kernels), "%s", info.kernels);
	snprintf(h->direct_why, sizeof(h->direct_why), "%.127s",
		 info.direct_why ? info.direct_why : "");
	snprintf(h->store, sizeof(h->store), "%.1023s", info.store);
}

void kvs_session_publish(struct kvs *s)
{
	struct kvs_page_head head;

	set_head(s, &head);
	kvs_publish_open(NULL, &head, &s->publisher);
	kvs_session_published(s, 0);
}

void kvs_session_published(struct kvs *s, uint32_t steps)
{
	uint32_t sequences = 0;
	uint64_t tokens = 0;
	struct kvs_stats stats;

	s->n_steps += steps;
	if (!s->publisher)
		return;
	for (uint32_t i = 0; i < s->geo.n_seqs; i++)
		if (s->seqs[i].used) {
			sequences++;
			tokens += s->seqs[i].tokens[s->geo.n_layers - 1];
		}
	kvs_stats_get(s, &stats);
	kvs_publish_update(s->publisher, &stats, s->n_steps, sequences, tokens);
}
