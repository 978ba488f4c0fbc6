// What MSK does with a token of IAM: the request's address is taken apart, and its signature computed again.
package headrace.tests

import java.net.{URI, URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.time.{LocalDateTime, ZoneOffset}
import java.time.format.DateTimeFormatter
import java.util
import java.util.Base64
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec
import javax.security.auth.callback.Callback
import javax.security.auth.login.AppConfigurationEntry
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler
import org.apache.kafka.common.security.oauthbearer.{OAuthBearerToken, OAuthBearerValidatorCallback}

class IamValidator extends AuthenticateCallbackHandler {
  // KEY=SECRET[,KEY=SECRET]
  private val secrets = System.getProperty("headrace.tests.keys").split(",").map(_.split("=", 2)).map(p => p(0) -> p(1)).toMap
  private val region = System.getProperty("headrace.tests.region")

  override def configure(configs: util.Map[String, _], mechanism: String, entries: util.List[AppConfigurationEntry]): Unit = ()
  override def close(): Unit = ()

  override def handle(callbacks: Array[Callback]): Unit = callbacks.foreach {
    case one: OAuthBearerValidatorCallback =>
      check(one.tokenValue) match {
        case Right(token) => one.token(token)
        case Left(reason) => System.err.println(s"token refused: $reason"); one.error("invalid_token", null, null)
      }
    case _ => ()
  }

  private def check(text: String): Either[String, OAuthBearerToken] = {
    val address = URI.create(new String(Base64.getUrlDecoder.decode(text), UTF_8))
    val given = address.getRawQuery.split("&").map(_.split("=", 2)).map(p => p(0) -> URLDecoder.decode(p(1), UTF_8)).toMap
    val Array(key, day, where, service, end) = given("X-Amz-Credential").split("/"): @unchecked
    val at = LocalDateTime.parse(given("X-Amz-Date"), DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'")).toInstant(ZoneOffset.UTC).toEpochMilli
    val until = at + given("X-Amz-Expires").toLong * 1000
    if (!secrets.contains(key)) Left(s"no key $key")
    else if (given("Action") != "kafka-cluster:Connect" || service != "kafka-cluster") Left("another action")
    else if (where != region || address.getHost != s"kafka.$region.amazonaws.com") Left(s"another region, $where")
    else if (given("X-Amz-Expires").toLong > 900 || until < System.currentTimeMillis) Left("expired")
    else {
      val signed = (given - "X-Amz-Signature" - "User-Agent").toSeq.sorted.map { case (n, v) => s"${quoted(n)}=${quoted(v)}" }.mkString("&")
      val request = s"GET\n/\n$signed\nhost:${address.getHost}\n\nhost\n${hex(digest(""))}"
      val scope = s"$day/$where/$service/$end"
      val toSign = s"AWS4-HMAC-SHA256\n${given("X-Amz-Date")}\n$scope\n${hex(digest(request))}"
      val signing = Seq(day, where, service, end).foldLeft(("AWS4" + secrets(key)).getBytes(UTF_8))(mac)
      if (hex(mac(signing, toSign)) != given("X-Amz-Signature")) Left("another signature") else Right(Believed(text, key, at, until))
    }
  }

  private def quoted(text: String) = URLEncoder.encode(text, UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~")
  private def digest(text: String) = MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8))
  private def hex(bytes: Array[Byte]) = bytes.map(b => f"$b%02x").mkString
  private def mac(key: Array[Byte], text: String) = {
    val made = Mac.getInstance("HmacSHA256")
    made.init(new SecretKeySpec(key, "HmacSHA256"))
    made.doFinal(text.getBytes(UTF_8))
  }
}

case class Believed(value: String, principalName: String, at: Long, lifetimeMs: Long) extends OAuthBearerToken {
  override def scope: util.Set[String] = util.Set.of()
  override def startTimeMs: java.lang.Long = at
}
