/* Preloaded, stands in for a name server that does not answer for two seconds.
 */
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char* name, const char* service,
                const struct addrinfo* hints, struct addrinfo** result) {
  sleep(2);
  return EAI_AGAIN;
}
