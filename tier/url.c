/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url.c - splits the URL of a tier and refuses what cannot be one. Each backend calls it when it is made.
 *
 * Thread: any.
 */
#include "tier/url.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define PLAIN LETTERS DIGITS "-._"

/* A part of the URL's text. */
struct part {
    const char *at;
    size_t len;
};

static bool say(char *why, size_t why_size, const char *text)
{
    snprintf(why, why_size, "%s", text);
    return false;
}

/* Takes from `rest` all before the first byte of `ends`; that byte stays. */
static struct part take_until(const char **rest, const char *ends)
{
    struct part p = {*rest, strcspn(*rest, ends)};
    *rest += p.len;
    return p;
}

/* Copies `p` if it fits, is not empty and consists of `alphabet`. */
static bool copy_part(struct part p, const char *alphabet, char *out, size_t cap)
{
    if (p.len == 0 || p.len >= cap)
        return false;
    memcpy(out, p.at, p.len);
    out[p.len] = '\0';
    return strspn(out, alphabet) == p.len;
}

static bool parse_port(struct part p, uint16_t *out)
{
    char text[6];
    unsigned port = 0;
    if (!copy_part(p, DIGITS, text, sizeof text))
        return false;
    for (const char *c = text; *c; c++)
        port = port * 10 + (unsigned)(*c - '0');
    *out = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

/* Parses HOST[:PORT]; HOST may be an IPv6 address in brackets. */
static bool parse_host(struct part p, struct tier_url *out)
{
    bool ipv6 = p.len && *p.at == '[';
    const char *bracket = ipv6 ? memchr(p.at, ']', p.len) : NULL;
    if (ipv6 && !bracket)
        return false;
    const char *from = ipv6 ? bracket : p.at;
    const char *colon = memchr(from, ':', p.len - (size_t)(from - p.at));
    const char *end = colon ? colon : p.at + p.len;
    if (ipv6 && bracket + 1 != end)
        return false;
    if (colon &&
        !parse_port((struct part){colon + 1, p.len - (size_t)(colon + 1 - p.at)}, &out->port))
        return false;
    struct part name = {p.at, (size_t)(end - p.at)};
    if (ipv6)
        name = (struct part){p.at + 1, (size_t)(bracket - p.at) - 1};
    return copy_part(name, ipv6 ? DIGITS "abcdefABCDEF:." : PLAIN, out->host, sizeof out->host);
}

/* Copies the path without slashes at its ends. Refuses empty, "." and ".." folders. */
static bool parse_path(struct part p, struct tier_url *out)
{
    while (p.len && *p.at == '/')
        p.at++, p.len--;
    while (p.len && p.at[p.len - 1] == '/')
        p.len--;
    if (p.len == 0)
        return true;
    if (!copy_part(p, PLAIN "/", out->path, sizeof out->path))
        return false;
    for (const char *at = out->path; *at;) {
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 1 && *at == '.') || (len == 2 && memcmp(at, "..", 2) == 0))
            return false;
        at += len + (at[len] == '/');
    }
    return true;
}

/* True if an option of this name holds a secret in some other program's URLs. */
static bool is_secret(const char *name)
{
    static const char *const words[] = {"password",   "passwd",     "secret",    "token",
                                        "access_key", "access-key", "signature", "credential"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static bool parse_options(const char *at, struct tier_url *out, char *why, size_t why_size)
{
    while (*at) {
        struct part name = take_until(&at, "=&");
        if (*at != '=' || out->n_options == TIER_URL_OPTIONS_MAX)
            return say(why, why_size, "the URL's options are not name=value&name=value");
        at++;
        struct part value = take_until(&at, "&");
        at += *at == '&';
        char *to = out->options[out->n_options].name;
        if (!copy_part(name, PLAIN, to, sizeof out->options->name))
            return say(why, why_size, "an option's name in the URL is malformed");
        if (is_secret(to))
            return say(
                why, why_size,
                "the URL has a secret in its options: write it into the file of tier_credentials");
        if (tier_url_option(out, to))
            return say(why, why_size, "an option is given twice in the URL");
        if (!copy_part(value, PLAIN ":/[]", out->options[out->n_options].value,
                       sizeof out->options->value))
            return say(why, why_size, "an option's value in the URL is malformed");
        out->n_options++;
    }
    return true;
}

bool tier_url_parse(const char *text, struct tier_url *out, char *why, size_t why_size)
{
    assert(why_size);
    *out = (struct tier_url){0};
    const char *at = text;
    struct part scheme = take_until(&at, ":/?@");
    if (strncmp(at, "://", 3) != 0 ||
        !copy_part(scheme, LETTERS DIGITS "-", out->scheme, sizeof out->scheme))
        return say(why, why_size, "the URL does not begin with SCHEME://");
    for (char *c = out->scheme; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    at += 3;

    struct part host = take_until(&at, "/?#");
    const char *user_end = memrchr(host.at, '@', host.len);
    if (user_end) {
        struct part user = {host.at, (size_t)(user_end - host.at)};
        if (memchr(user.at, ':', user.len))
            return say(why, why_size,
                       "the URL has a password: write it into the file of tier_credentials, as "
                       "password = ...");
        if (!copy_part(user, PLAIN, out->user, sizeof out->user))
            return say(why, why_size, "the user's name in the URL is malformed");
        host.len -= user.len + 1;
        host.at = user_end + 1;
    }
    /* A password with a slash ends the host's part early; its @ is then in the path or the options. */
    if (strchr(at, '@'))
        return say(why, why_size,
                   "the URL has an @ after its host: a password belongs into the file of "
                   "tier_credentials");
    if (!parse_host(host, out))
        return say(why, why_size, "the URL's host or port is malformed: write HOST or HOST:PORT");
    if (!parse_path(take_until(&at, "?#"), out))
        return say(why, why_size, "the URL's path has another byte than letters, digits, and -._/");
    if (*at == '#')
        return say(why, why_size, "the URL has a #");
    return *at == '?' ? parse_options(at + 1, out, why, why_size) : true;
}

const char *tier_url_option(const struct tier_url *url, const char *name)
{
    for (unsigned i = 0; i < url->n_options; i++)
        if (strcmp(url->options[i].name, name) == 0)
            return url->options[i].value;
    return NULL;
}

bool tier_url_check_options(const struct tier_url *url, const char *const *known, char *why,
                            size_t why_size)
{
    for (unsigned i = 0; i < url->n_options; i++) {
        const char *const *k = known;
        while (*k && strcmp(*k, url->options[i].name) != 0)
            k++;
        if (!*k) {
            snprintf(why, why_size, "%s:// has no option %s", url->scheme, url->options[i].name);
            return false;
        }
    }
    return true;
}
