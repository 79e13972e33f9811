/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_report.c - the state of the tier in STATS and in the metrics. The counters are in stats.h.
 *
 * Thread: loop thread.
 */
#include "daemon/nodes/tier_state.h"
#include "keygen/json.h"

static void write_direction(const struct tier *t, const struct tier_breaker *b, struct writer *out)
{
    uint64_t now = tier_now_ms(t);
    writer_format(
        out, "\"%s\": {\"state\": \"%s\", \"off_ms\": %llu, \"failures\": %u, \"said\": ", b->what,
        tier_is_off(t, b) ? "off"
        : b->n_failures   ? "failing"
                          : "on",
        (unsigned long long)(b->off_until_ms > now ? b->off_until_ms - now : 0), b->n_failures);
    json_write_text(out, b->said, strlen(b->said));
    writer_u8(out, '}');
}

void tier_write_json(const struct tier *t, struct writer *out)
{
    if (!t) {
        writer_format(out, ", \"tier\": null");
        return;
    }
    writer_format(out, ", \"tier\": {\"url\": ");
    json_write_text(out, t->host.config->tier, strlen(t->host.config->tier));
    writer_format(out,
                  ", \"ready\": %s, \"signs\": %s, \"leases_held\": %zu, \"can_lease\": %s, "
                  "\"asking\": %zu, \"queue\": %llu, \"queue_oldest_ms\": %llu, \"sending\": %zu, "
                  "\"refused\": {\"signature\": %llu, \"value\": %llu, \"other\": %llu}, ",
                  tier_link_is_ready(t->link) ? "true" : "false", t->has_key ? "true" : "false",
                  tier_leases_count(t), t->has_no_leases ? "false" : "true", t->n_fetches,
                  (unsigned long long)tier_queue_length(t),
                  (unsigned long long)tier_queue_oldest_ms(t), t->n_uploads,
                  (unsigned long long)t->n_unsigned, (unsigned long long)t->n_damaged,
                  (unsigned long long)t->n_other);
    write_direction(t, &t->reads, out);
    writer_bytes(out, ", ", 2);
    write_direction(t, &t->writes, out);
    writer_u8(out, '}');
}

void tier_write_metrics(const struct tier *t, struct writer *out)
{
    if (!t)
        return;
    writer_format(
        out,
        "# TYPE warm_tier_refused_why counter\n# HELP warm_tier_refused_why Entries of the "
        "tier that did not count.\n"
        "warm_tier_refused_why_total{why=\"signature\"} %llu\n"
        "warm_tier_refused_why_total{why=\"value\"} %llu\n"
        "warm_tier_refused_why_total{why=\"other\"} %llu\n"
        "# TYPE warm_tier_queue gauge\n# HELP warm_tier_queue Entries that wait to be sent.\n"
        "warm_tier_queue %llu\n"
        "# TYPE warm_tier_queue_oldest_seconds gauge\n"
        "# UNIT warm_tier_queue_oldest_seconds seconds\n"
        "# HELP warm_tier_queue_oldest_seconds For how long the oldest has waited.\n"
        "warm_tier_queue_oldest_seconds %.3f\n"
        "# TYPE warm_tier_off gauge\n"
        "# HELP warm_tier_off 1 if nobody is asked, or nothing sent, after failures.\n"
        "warm_tier_off{of=\"reads\"} %u\nwarm_tier_off{of=\"writes\"} %u\n",
        (unsigned long long)t->n_unsigned, (unsigned long long)t->n_damaged,
        (unsigned long long)t->n_other, (unsigned long long)tier_queue_length(t),
        (double)tier_queue_oldest_ms(t) / 1e3, tier_is_off(t, &t->reads),
        tier_is_off(t, &t->writes));
}
